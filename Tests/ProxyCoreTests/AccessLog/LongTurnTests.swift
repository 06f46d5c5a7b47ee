// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("Turns of a loop that are too long")
struct LongTurnTests {
    private func turn(_ milliseconds: Int, _ work: TurnWork = .handshake) -> LongTurn {
        LongTurn(microseconds: milliseconds * 1000, work: work)
    }

    private func note(
        _ notices: inout LongTurnNotices,
        _ turn: LongTurn,
        ofWorker worker: Int = 0,
        now: Int64
    ) -> String? {
        notices.note(turn, ofWorker: worker, now: now)?.json
    }

    @Test("the first long turn has an event with worker, time and work")
    func first() throws {
        var notices = LongTurnNotices()
        let line = note(&notices, turn(3412, [.handshake, .name]), ofWorker: 1, now: 5)
        #expect(
            line
                == "{\"event\":\"warning\",\"code\":\"loop_turn_long\",\"worker\":1,\"milliseconds\":3412,"
                + "\"work\":[\"handshake\",\"name\"],\"count\":1,\"message\":\"worker 1 needed 3412 ms of the processor for one "
                + "turn of its loop (handshake, name): all its other clients have waited\"}"
        )
    }

    @Test("at most one event a second counts the turns and names the longest")
    func rate() throws {
        var notices = LongTurnNotices()
        #expect(note(&notices, turn(100), now: 0) != nil)
        #expect(note(&notices, turn(900, .cache), ofWorker: 1, now: 1) == nil)
        #expect(note(&notices, turn(200), now: 999) == nil)
        let line = try #require(note(&notices, turn(150), now: 1000))
        #expect(line.contains("\"worker\":1,\"milliseconds\":900,\"work\":[\"cache\"],\"count\":3,"))
        #expect(note(&notices, turn(150), now: 1999) == nil)
        let next = try #require(note(&notices, turn(110), now: 2000))
        #expect(next.contains("\"worker\":0,\"milliseconds\":150,\"work\":[\"handshake\"],\"count\":2,"))
    }

    @Test("a worker that computes too long in one turn causes an event")
    func worker() throws {
        var configuration = Configuration()
        configuration.workers = 1
        configuration.log.tasks = .off
        configuration.listeners = [
            ListenerConfiguration(endpoint: .address(try AddressAndPort(parsing: "127.0.0.1:0")))
        ]
        let parts = PolicyParts(
            configuration: configuration,
            pinnedDomains: PinnedDomains(),
            trustAnchors: TrustAnchors(certificates: [])
        )
        let told = Monitor<[String]>([])
        var monitoring = PinMonitor.Settings()
        monitoring.log = { line, _, _ in told.with { $0.append(line.json) } }
        let server = try ProxyServer(parts: parts, monitoring: monitoring)
        defer { server.stop() }
        func compute(_ milliseconds: UInt64) {
            server.submit(toWorker: 0) {
                let start = Clock.processorTimeOfThread
                while Clock.processorTimeOfThread &- start < milliseconds * 1_000_000 {}
            }
        }
        compute(20)
        compute(110)
        let line = try told.wait(for: "the event") { $0.first { $0.contains("loop_turn_long") } }
        #expect(line.contains("\"worker\":0,") && line.contains("\"message\"],\"count\":1"), "\(line)")
    }
}
