// SPDX-License-Identifier: Apache-2.0
import Synchronization
import TestSupport
import Testing

@Suite("Kept connections that the origin has closed", .onOwnThreads)
struct StaleConnectionTests {
    /// The origin's reaction to the second request of a connection.
    enum Treachery: CaseIterable {
        /// Closes right after the first answer, so that the second request and the end cross on the way.
        case closesAfterResponse
        case resetsAfterResponse
        /// Takes the second request, all of it, and closes without a word.
        case closesAfterRequest
        case resetsAfterRequest
    }

    private func stage(_ treachery: Treachery) throws -> Stage {
        try Stage({ $0.members["workers"] = 1 }) { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.respond("first")
            switch treachery {
            case .closesAfterResponse: connection.close(connection.number % 2 == 0 ? .clean : .cut)
            case .resetsAfterResponse: connection.close(.reset)
            case .closesAfterRequest, .resetsAfterRequest:
                guard try connection.readRequest() != nil else { return }
                connection.close(treachery == .closesAfterRequest ? .cut : .reset)
            }
        }
    }

    @Test("rule 57: a POST reaches the origin once or not at all, never twice", arguments: Treachery.allCases)
    func post(treachery: Treachery) throws {
        let stage = try stage(treachery)
        var responded = Set<String>()
        let iterations = 60
        for iteration in 0..<iterations {
            let client = try stage.proxy.connect()
            for half in ["a", "b"] {
                let name = "/\(iteration)\(half)"
                try client.send(ProxyUnderTest.request("POST", stage.url(name), body: "pay once"))
                let response = try client.readResponse(to: "POST")
                if response.status == 200 {
                    responded.insert(name)
                } else {
                    #expect(response.status == 502, "\(response.startLine)")
                    #expect(response.problemCode == "response_truncated")
                }
                if response["Connection"] == "close" { break }
            }
        }
        let arrivals = Dictionary(grouping: stage.origin.requests.filter { !$0.isTruncated }, by: \.target)
        for (name, requests) in arrivals {
            #expect(requests.count == 1, "\(name) arrived \(requests.count) times")
        }
        for name in responded { #expect(arrivals[name]?.count == 1) }
        #expect(arrivals.values.allSatisfy { $0.allSatisfy { $0.text == "pay once" } })
    }

    @Test("rule 57: a GET in that place gets its response", arguments: Treachery.allCases)
    func get(treachery: Treachery) throws {
        let stage = try stage(treachery)
        let client = try stage.proxy.connect()
        for iteration in 0..<60 {
            try client.send(ProxyUnderTest.request("GET", stage.url("/\(iteration)")))
            let response = try client.readResponse()
            #expect(response.status == 200, "\(iteration): \(response.startLine) \(response.text)")
        }
    }

    @Test("rule 57: a GET on a new connection without a response is not repeated")
    func newConnection() throws {
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            connection.close(.cut)
        }
        let response = try stage.get("/once")
        #expect(response.status == 502)
        #expect(response.problemCode == "response_truncated")
        #expect(stage.origin.requests.count == 1)
    }
}
