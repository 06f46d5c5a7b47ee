// SPDX-License-Identifier: Apache-2.0
import HTTPSession

struct Price: Decodable, Sendable {
    let item: String
    let cents: Int
}

func readEvents(with manager: HTTPSessionManager) async throws {
    for try await event in manager.events("updates") {
        print(event.event, event.data)
    }
}

func readLines(with manager: HTTPSessionManager) async throws {
    let stream = try await manager.stream(.get, "prices")
    for try await price in stream.decodables(Price.self) {
        print(price.item, price.cents)
    }
}
