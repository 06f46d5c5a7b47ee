// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("A session's cache and handshakes that are cut", .onOwnThreads)
struct CutHandshakeTests {
    /// The ways in which the network cuts a handshake.
    enum Cut: CaseIterable {
        case ended, reset, endedInHello, resetInHello
        /// From here on the peer has sent bytes, which may not be the origin's.
        case alert, otherProtocol, endedBehindChain, resetBehindChain

        var leavesDoubt: Bool {
            switch self {
            case .ended, .reset, .endedInHello, .resetInHello: false
            case .alert, .otherProtocol, .endedBehindChain, .resetBehindChain: true
            }
        }

        func carryOut(on stream: RecordRelay.Stream) throws {
            switch self {
            case .ended, .reset: break
            case .endedInHello, .resetInHello:
                let hello = try #require(stream.nextRecord())
                try stream.deliver(Array(hello[..<20]))
                try stream.waitUntilArrived()
            // An internal error. After handshake_failure other profiles would be tried, on connections of their own.
            case .alert: try stream.deliver([21, 3, 3, 0, 2, 2, 80])
            case .otherProtocol: try stream.deliver(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
            case .endedBehindChain, .resetBehindChain:
                // Hello, change of cipher, extensions, chain; not the proof of its key (RFC 8446, section 2).
                for _ in 0..<4 { try stream.deliver(#require(stream.nextRecord())) }
                try stream.waitUntilArrived()
            }
            stream.endsWithReset = [.reset, .resetInHello, .resetBehindChain].contains(self)
        }
    }

    @Test(
        "a handshake that is cut before a verdict allows a stale response",
        arguments: Cut.allCases
    )
    func standsIn(cut: Cut) async throws {
        let origin = Monitor<UInt16>(0)
        let number = Monitor(0)
        let relay = try RecordRelay(choosing: { origin.with { $0 } }) { stream in
            let connection = number.with { number in
                number += 1
                return number
            }
            switch connection {
            case 1, 4: try stream.passRest()
            case 2: try cut.carryOut(on: stream)
            default: break
            }
        }
        let cached = try CacheFixture(pinned: [ManagerStage.host]) { configuration in
            let host = try! Host(ManagerStage.host)
            origin.with { $0 = configuration.resolve[host]?.port ?? 0 }
            configuration.resolve[host]?.port = relay.port
        } script: { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.respond(
                "good",
                fields: ["Cache-Control: max-age=0, stale-if-error=600", "Connection: close"]
            )
        }
        #expect(try await cached.get() == "good")
        if cut.leavesDoubt {
            await #expect { _ = try await cached.get() } throws: { $0.sessionCode == .tlsHandshakeFailed }
            // Nothing stale from then on, until a server that passes has answered.
            await #expect { _ = try await cached.get() } throws: { $0.sessionCode == .tlsHandshakeFailed }
        } else {
            for _ in 0..<2 {
                let response = try await cached.response(cached.request())
                #expect(response.text == "good" && response.sources.last == "localCache 200")
            }
        }
        #expect(try await cached.get() == "good")
        #expect(cached.asked.count == 2)
        // The server that passed has answered.
        let last = try await cached.response(cached.request())
        #expect(last.text == "good" && last.sources == ["networkLoad 0", "localCache 200"])
        await cached.end()
    }
}
