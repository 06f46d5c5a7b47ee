// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func automaticValidation(_ session: HTTPSessionManager) async throws {
    print(try await session.get("get", serializer: .data))
}

func manualValidation(_ session: HTTPSessionManager) async {
    let validation = ResponseValidation(
        acceptableStatusCodes: Set(200..<300),
        acceptableContentTypes: ["application/json"]
    )
    do {
        _ = try await session.get("get", serializer: HTTPResponseSerializer(validation: validation))
        print("Validation Successful")
    } catch {
        print(error)
    }
}
