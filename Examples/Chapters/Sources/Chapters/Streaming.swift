// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func streamBytes(_ session: HTTPSessionManager) async throws {
    for try await chunk in try await session.stream(.get, "stream").chunks {
        print(chunk.count)
    }
}

func streamText(_ session: HTTPSessionManager) async throws {
    for try await line in try await session.stream(.get, "stream").lines {
        print(line)
    }
}

func streamValues(_ session: HTTPSessionManager) async throws {
    for try await value in try await session.stream(.get, "stream").decodables(Seen.self) {
        print(value)
    }
}

func cancelAStream(_ session: HTTPSessionManager) async throws {
    for try await _ in try await session.stream(.get, "stream").lines {
        break
    }
}
