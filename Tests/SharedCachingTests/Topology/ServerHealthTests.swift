// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SharedCaching

@Suite("The health of a server")
struct ServerHealthTests {
    private static let second: UInt64 = 1_000_000_000
    private static let get = Array("GET".utf8)
    private static let set = Array("SET".utf8)

    private static func outcome(_ result: RedisResult, _ expectation: ServerOutcome.Expectation = .anything)
        -> ServerOutcome
    {
        ServerOutcome(result, expectation, from: RedisAddress(host: "a", port: 1))
    }

    @Test(
        "errors of a server that is of no use are failures with its word",
        arguments: ["LOADING", "MASTERDOWN", "NOAUTH", "WRONGPASS", "CLUSTERDOWN", "DENIED"]
    )
    func refusals(word: String) {
        let outcome = Self.outcome(.error("\(word) some words"))
        #expect(outcome.result == .failure(.refused(word)) && outcome.verdict == .refuses(word))
        #expect(Self.outcome(.error(word)).verdict == .refuses(word))
    }

    @Test(
        "errors about some commands are failures of the command alone",
        arguments: ["OOM", "READONLY", "MISCONF", "NOREPLICAS", "NOPERM"]
    )
    func limits(word: String) {
        let outcome = Self.outcome(.error("\(word) some words"))
        #expect(outcome.result == .failure(.refused(word)) && outcome.verdict == .limited(word))
    }

    @Test("a full server has a word of its own")
    func full() {
        let outcome = Self.outcome(.error("ERR max number of clients reached"))
        #expect(outcome.result == .failure(.refused("MAXCLIENTS")) && outcome.verdict == .refuses("MAXCLIENTS"))
    }

    @Test("keys on their way are a failure of a server that works")
    func tryAgain() {
        let outcome = Self.outcome(.error("TRYAGAIN Multiple keys request during rehashing of slot"))
        #expect(outcome.result == .failure(.refused("TRYAGAIN")) && outcome.verdict == .works)
    }

    @Test(
        "other errors are replies",
        arguments: ["ERR unknown command", "WRONGTYPE x", "NOSCRIPT x", "MOVED 1 a:1", "LOADINGX", "", " OOM"]
    )
    func others(text: String) {
        let outcome = Self.outcome(.error(text))
        #expect(outcome.result == .error(text) && outcome.verdict == .works)
    }

    @Test("a word of a server that is not known is not told")
    func unknownWord() {
        #expect(Self.outcome(.failure(.refused("SECRET"))).verdict == .refuses("refused"))
        #expect(Self.outcome(.failure(.refused("WRONGPASS"))).verdict == .refuses("WRONGPASS"))
        #expect(Self.outcome(.failure(.malformed("bytes"))).verdict == .refuses("malformed reply"))
    }

    @Test("a reply that is not the expected one is a limit")
    func expectations() {
        #expect(Self.outcome(.success(.null), .primaryAddress).verdict == .limited("unknown name"))
        #expect(Self.outcome(.success(.array([.bytes(Array("slave".utf8))])), .primary).verdict == .limited("replica"))
        #expect(
            Self.outcome(.error("ERR This instance has cluster support disabled"), .clusterTable).verdict
                == .limited("no cluster")
        )
        #expect(Self.outcome(.success(.array([.bytes(Array("master".utf8))])), .primary).verdict == .works)
    }

    @Test("a server's own word is told at once, and ends with the next reply")
    func word() {
        var health = ServerHealth()
        #expect(health.state == nil)
        health.note(.works, Self.get, now: 0)
        #expect(health.state == .available)
        health.note(.refuses("LOADING"), Self.get, now: 1)
        #expect(health.state == .unavailable(reason: "LOADING"))
        health.note(.works, Self.get, now: 2)
        #expect(health.state == .available)
    }

    @Test("five late replies in a row open the breaker, which a probe closes")
    func late() {
        var health = ServerHealth()
        for time in 0..<4 { health.note(.late, Self.get, now: UInt64(time)) }
        #expect(health.state == nil && health.mayAsk(now: 4))
        health.note(.late, Self.get, now: 5)
        #expect(health.state == .unavailable(reason: "timeout"))
        #expect(health.mayAsk(now: 6) == false)
        #expect(health.mayAsk(now: 6 + Self.second) && !health.mayAsk(now: 7 + Self.second))
        health.note(.works, Self.get, now: 8 + Self.second)
        #expect(health.state == .available && health.mayAsk(now: 9 + Self.second))
    }

    @Test("writes that fail are told, and do not open the breaker")
    func limitedWrites() {
        var health = ServerHealth()
        for time in 0..<20 { health.note(.limited("OOM"), Self.set, now: UInt64(time)) }
        #expect(health.state == .unavailable(reason: "OOM") && health.mayAsk(now: 20))
        health.note(.works, Self.get, now: 20 * Self.second)
        #expect(health.state == .unavailable(reason: "OOM"))
        // A script may have had nothing to write.
        health.note(.works, Self.set, now: 9 * Self.second)
        #expect(health.state == .unavailable(reason: "OOM"))
        health.note(.works, Self.set, now: 11 * Self.second)
        #expect(health.state == .available)
    }

    @Test("a replica that has become the primary is available at once")
    func promoted() {
        var health = ServerHealth()
        health.note(.limited("replica"), Array("ROLE".utf8), now: 0)
        #expect(health.state == .unavailable(reason: "replica"))
        health.note(.works, Array("ROLE".utf8), now: 1)
        #expect(health.state == .available)
    }

    @Test("commands lost with one connection are one failure")
    func lost() {
        var health = ServerHealth()
        health.note(.works, Self.get, now: 0)
        for _ in 0..<100 { health.note(.lost, Self.get, now: 1) }
        health.noteEnd(.connection("reset"), hasReplied: true, hasLost: true, now: 1)
        #expect(health.state == .available && health.mayAsk(now: 1))
        for _ in 0..<4 { health.noteEnd(.connection("reset"), hasReplied: true, hasLost: true, now: 2) }
        #expect(health.state == .unavailable(reason: "reset") && !health.mayAsk(now: 2))
    }

    @Test("an idle connection that the server ends, or this side, is no failure")
    func idle() {
        var health = ServerHealth()
        health.note(.works, Self.get, now: 0)
        for _ in 0..<10 {
            health.noteEnd(.connection("end"), hasReplied: true, hasLost: false, now: 1)
            health.noteEnd(.closed, hasReplied: false, hasLost: true, now: 1)
        }
        #expect(health.state == .available && health.mayAsk(now: 1))
    }

    @Test("dials are 100 milliseconds apart, and logins that were refused a second")
    func pauses() {
        var health = ServerHealth()
        #expect(health.mayDial(now: 0))
        health.noteDial(now: 0)
        #expect(!health.mayDial(now: 99_999_999) && health.mayDial(now: 100_000_000))
        health.noteEnd(.connection("refused"), hasReplied: false, hasLost: true, now: 150_000_000)
        #expect(health.state == .unavailable(reason: "refused"))
        #expect(!health.mayDial(now: 249_999_999) && health.mayDial(now: 250_000_000))
        health.noteEnd(.refused("WRONGPASS"), hasReplied: false, hasLost: false, now: Self.second)
        #expect(health.state == .unavailable(reason: "WRONGPASS"))
        #expect(!health.mayDial(now: 2 * Self.second - 1) && health.mayDial(now: 2 * Self.second))
    }

    @Test(
        "after bytes that are no reply a server is not dialled for a second",
        arguments: [true, false]
    )
    func malformed(hasReplied: Bool) {
        var health = ServerHealth()
        for round in 1...20 {
            let now = UInt64(round) * Self.second
            #expect(health.mayDial(now: now) && health.mayAsk(now: now))
            health.noteDial(now: now)
            if hasReplied { health.note(.works, Self.get, now: now) }
            health.noteEnd(.malformed("bytes"), hasReplied: hasReplied, hasLost: false, now: now)
            #expect(health.state == .unavailable(reason: "malformed reply"))
            #expect(!health.mayDial(now: now + Self.second - 1))
            if !hasReplied, round == 5 { return #expect(health.mayAsk(now: now + Self.second - 1) == false) }
        }
    }
}
