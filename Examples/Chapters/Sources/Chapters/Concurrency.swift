// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func awaitedValues(_ session: HTTPSessionManager) async throws {
    print(try await session.get("get", serializer: .decodable(Seen.self)).value)
}

func oneOfThem(_ session: HTTPSessionManager) async throws {
    let request = try session.request(.get, "get")
    let serialized = try await request.response(serializer: .decodable(Seen.self))
    print(serialized.response, serialized.value)
}

func twoSerializers(_ session: HTTPSessionManager) async throws {
    let request = try session.request(.get, "get")
    print(try await request.response(serializer: .string))
    print(try await request.response(serializer: .decodable(Seen.self)))
}

func inParallel(_ session: HTTPSessionManager) async throws {
    async let first = session.get("get", serializer: .decodable(Seen.self))
    async let second = session.get("get", serializer: .string)
    async let third = session.get("get", serializer: .data)
    print(try await (first, second, third))
}

func awaitedFile(_ session: HTTPSessionManager) async throws {
    print(try await session.download(.get, "image/png").response().path)
}

func notCancelled(_ session: HTTPSessionManager) async throws {
    let request = try session.request(.get, "get").response(serializer: .string) { print($0) }
    let task = Task { try await request.response(serializer: .decodable(Seen.self)) }
    _ = try await task.value
    print(request.state)
}

func cancelledWithTheTask(_ session: HTTPSessionManager) async throws {
    let request = try session.request(.get, "slow")
    let task = Task { try await request.response(serializer: .string) }
    task.cancel()
    _ = await task.result
    print(request.state)
}

func awaitedStream(_ session: HTTPSessionManager) async throws {
    for try await chunk in try await session.stream(.get, "stream").chunks {
        print(chunk.count)
    }
}

func endedStream(_ session: HTTPSessionManager) async throws {
    for try await chunk in try await session.stream(.get, "stream").chunks {
        if chunk.count > 0 { break }
    }
}

func valueStreams(_ session: HTTPSessionManager) async throws {
    let request = try session.request(.get, "get").response(serializer: .data) { print($0) }
    for await figure in request.downloadProgress() {
        print(figure)
    }
}
