// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SessionCore

@Suite("What a session learns about a server")
struct ConnectionHostTests {
    private static let second: UInt64 = 1_000_000_000

    @Test("a GOAWAY limits a connection's requests for ten seconds, a second for five minutes")
    func requestLimit() {
        let host = ConnectionHost()
        #expect(host.requestLimit(at: 0) == .max)
        // A server that is restarted ends its connections at any number.
        host.didEndConnection(after: 50, at: 0)
        #expect(host.requestLimit(at: 10 * Self.second - 1) == 50)
        #expect(host.requestLimit(at: 10 * Self.second) == .max)
        host.didEndConnection(after: 70, at: 20 * Self.second)
        #expect(host.requestLimit(at: 30 * Self.second) == .max)
        // nginx: keepalive_requests.
        host.didEndConnection(after: 70, at: 100 * Self.second)
        #expect(host.requestLimit(at: 400 * Self.second - 1) == 70)
        #expect(host.requestLimit(at: 400 * Self.second) == .max)
        // So few are no setting of a server.
        for start in [UInt64(500), 600] { host.didEndConnection(after: 3, at: start * Self.second) }
        #expect(host.requestLimit(at: 610 * Self.second - 1) == 10)
        #expect(host.requestLimit(at: 610 * Self.second) == .max)
    }
}
