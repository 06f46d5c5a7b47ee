// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import Testing

@testable import pinproxy

@Suite("What a run has asked for")
struct RunRecordTests {
    private static func tunnels(_ members: String) -> Set<String> {
        let record = RunRecord(besides: PinnedDomains())
        let line = "{\"event\":\"task\",\"method\":\"CONNECT\",\"url\":\"api.test:443\",\(members)}\n"
        Array(line.utf8).withUnsafeBytes { record.add($0) }
        return record.content.tunnels
    }

    @Test("a tunnel counts when bytes came back, also when it was cut off")
    func tunnels() {
        #expect(Self.tunnels("\"status\":200,\"bytesReceived\":10") == ["api.test:443"])
        #expect(Self.tunnels("\"status\":200,\"bytesReceived\":10,\"error\":\"client_closed\"") == ["api.test:443"])
        #expect(Self.tunnels("\"status\":200,\"bytesReceived\":0").isEmpty)
        #expect(Self.tunnels("\"status\":403,\"bytesReceived\":10,\"error\":\"connect_denied\"").isEmpty)
        #expect(Self.tunnels("\"status\":200,\"bytesReceived\":10,\"pinning\":\"passed\"").isEmpty)
    }
}
