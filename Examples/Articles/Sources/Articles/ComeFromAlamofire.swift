// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession
import SessionCore

struct Item: Codable, Sendable {
    let name: String
}

func request(with session: HTTPSessionManager) async throws {
    let items = try await session.get("items", parameters: ["page": 2], serializer: .decodable([Item].self)).value
    print(items.count)

    let request = try session.request(.post, "items", parameters: Item(name: "new"))
    request.response(serializer: .decodable(Item.self)) { result in
        print((try? result.get().value.name) ?? "failed")
    }.response(serializer: .string) { result in
        print((try? result.get().value) ?? "failed")
    }
    print(try await request.response(serializer: .data).response.response.status)
}

func validate(with session: HTTPSessionManager) async throws {
    let validation = ResponseValidation(
        acceptableStatusCodes: Set(200..<300),
        acceptableContentTypes: ["application/json"]
    )
    let serializer = DecodableResponseSerializer([Item].self, validation: validation)
    print(try await session.get("items", serializer: serializer).value.count)
}

func makeSession(_ configuration: HTTPSessionManager.Configuration) throws -> HTTPSessionManager {
    try HTTPSessionManager(
        baseURL: "https://api.example.com/v1",
        configuration: configuration,
        interceptor: Interceptor(
            adapters: [Adapter { request, _ in request.adding("X-Client", "1") }],
            interceptors: [OfflineRetrier(), RetryPolicy()]
        )
    )
}

extension HTTPSessionRequest {
    func adding(_ name: String, _ value: String) -> HTTPSessionRequest {
        var request = self
        request.headers[name] = value
        return request
    }
}
