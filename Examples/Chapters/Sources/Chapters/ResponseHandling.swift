// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func decodableHandler(_ session: HTTPSessionManager) throws {
    try session.request(.get, "get").response(serializer: .decodable(Seen.self)) { result in
        debugPrint(result)
    }
}

func stringHandler(_ session: HTTPSessionManager) throws {
    try session.request(.get, "get").response(serializer: .string) { result in
        debugPrint(result)
    }
}

func awaited(_ session: HTTPSessionManager) async throws {
    print(try await session.get("get", serializer: .decodable(Seen.self)).value)
}

func chainedHandlers(_ session: HTTPSessionManager) throws {
    try session.request(.get, "get")
        .response(serializer: .string) { result in
            print((try? result.get().value) ?? "failed")
        }
        .response(serializer: .decodable(Seen.self)) { result in
            print((try? result.get().value.url) ?? "failed")
        }
}

func handlerQueue(_ session: HTTPSessionManager, _ queue: CallbackQueue) throws {
    try session.request(.get, "get").response(serializer: .decodable(Seen.self), queue: queue) { result in
        debugPrint(result)
    }
}
