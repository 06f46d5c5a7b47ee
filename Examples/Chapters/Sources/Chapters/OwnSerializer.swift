// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession

struct CSVResponseSerializer: ResponseSerializer {
    func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending [[String]] {
        let text = try StringResponseSerializer().serialize(response, to: method)
        return text.split(separator: "\n").map { line in line.split(separator: ",").map(String.init) }
    }
}

func ownSerializer(_ session: HTTPSessionManager) async throws {
    print(try await session.get("table", serializer: CSVResponseSerializer()).value)
}
