// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SessionCore

@Suite("The signs of life of an HTTP/2 connection")
struct ConnectionLivenessTests {
    private static let second: UInt64 = 1_000_000_000

    private func look(_ liveness: inout ConnectionLiveness, at seconds: Double, every interval: Double = 5) -> String {
        "\(liveness.look(every: UInt64(interval * 1e9), at: UInt64(seconds * 1e9)))"
    }

    private func at(_ seconds: UInt64) -> UInt64 { seconds * Self.second }

    @Test("a server is asked when nothing has come for an interval, and not before")
    func asks() {
        var liveness = ConnectionLiveness(at: at(100))
        #expect(look(&liveness, at: 104.9) == "wait" && !liveness.isUnanswered)
        #expect(look(&liveness, at: 105) == "ask" && liveness.isUnanswered)
        var other = ConnectionLiveness(at: at(100))
        other.didReceiveBytes(at: at(103))
        #expect(look(&other, at: 105) == "wait" && look(&other, at: 108) == "ask")
    }

    @Test("a server without a sign has two intervals, and twenty seconds for its requests")
    func patience() {
        var liveness = ConnectionLiveness(at: at(100))
        #expect(look(&liveness, at: 105) == "ask")
        for (seconds, expected) in [
            (105, "wait"), (110, "wait"), (114.9, "wait"), (115, "retire"), (120, "retire"), (124.9, "retire"),
            (125, "leave"), (300, "leave"),
        ] {
            #expect(look(&liveness, at: seconds) == expected, "\(seconds)")
        }
    }

    @Test("with a shorter interval new requests stay away earlier")
    func intervals() {
        var liveness = ConnectionLiveness(at: at(100))
        #expect(look(&liveness, at: 101, every: 1) == "ask")
        #expect(look(&liveness, at: 102.9, every: 1) == "wait" && look(&liveness, at: 103, every: 1) == "retire")
        #expect(look(&liveness, at: 120.9, every: 1) == "retire" && look(&liveness, at: 121, every: 1) == "leave")
    }

    @Test("any bytes are a sign; the next question waits for something of a response")
    func responses() {
        var liveness = ConnectionLiveness(at: at(100))
        #expect(look(&liveness, at: 105) == "ask")
        liveness.didReceiveBytes(at: at(105))
        #expect(!liveness.isUnanswered, "in the same turn")
        liveness.didReceiveBytes(at: at(106))
        #expect(!liveness.isUnanswered && look(&liveness, at: 200) == "wait")
        liveness.didProgress(at: at(201))
        liveness.didReceiveBytes(at: at(201))
        #expect(liveness.lastProgress == at(201))
        #expect(look(&liveness, at: 205) == "wait" && look(&liveness, at: 206) == "ask")
        liveness.didReceiveBytes(at: at(207))
        #expect(look(&liveness, at: 300) == "wait")
    }

    @Test("a connection has been silent since any moment after its last bytes")
    func silence() {
        var liveness = ConnectionLiveness(at: at(100))
        #expect(liveness.lastProgress == 0)
        #expect(!liveness.hasBeenSilent(since: at(100)) && liveness.hasBeenSilent(since: at(100) + 1))
        liveness.didReceiveBytes(at: at(110))
        #expect(!liveness.hasBeenSilent(since: at(110)) && liveness.hasBeenSilent(since: at(111)))
        // A PING that was sent is no sign of life of the server.
        #expect(look(&liveness, at: 120) == "ask" && liveness.hasBeenSilent(since: at(111)))
        // Progress alone is told with the bytes that it came in.
        liveness.didProgress(at: at(121))
        #expect(liveness.isUnanswered)
    }
}
