import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import SessionCore

@Suite("What a session learns about a server")
struct HostEntriesTests {
    private static let second: UInt64 = 1_000_000_000

    private func entry() throws -> HostEntry {
        var entries = HostEntries()
        return entries.entry(for: try TestSession.endpoint(port: 1, httpVersion: .http2), limit: 1, at: 0)
    }

    @Test("one GOAWAY bounds the requests of a connection for ten seconds, a second one after as many for five minutes")
    func requestLimit() throws {
        let entry = try entry()
        #expect(entry.requestLimit(at: 0) == .max)
        // A server that is restarted ends its connections at any number.
        entry.didEndConnection(after: 50, at: 0)
        #expect(entry.requestLimit(at: 10 * Self.second - 1) == 50)
        #expect(entry.requestLimit(at: 10 * Self.second) == .max)
        entry.didEndConnection(after: 70, at: 20 * Self.second)
        #expect(entry.requestLimit(at: 30 * Self.second) == .max)
        // nginx: keepalive_requests.
        entry.didEndConnection(after: 70, at: 100 * Self.second)
        #expect(entry.requestLimit(at: 400 * Self.second - 1) == 70)
        #expect(entry.requestLimit(at: 400 * Self.second) == .max)
        // So few are no setting of a server.
        for start in [UInt64(500), 600] { entry.didEndConnection(after: 3, at: start * Self.second) }
        #expect(entry.requestLimit(at: 610 * Self.second - 1) == 10)
        #expect(entry.requestLimit(at: 610 * Self.second) == .max)
    }
}
