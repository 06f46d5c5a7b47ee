// SPDX-License-Identifier: Apache-2.0
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("What a worker's loop knows of credentials")
struct CredentialBoardTests {
    /// A board whose questions are kept.
    private final class Stage {
        let loop: EventLoop
        private(set) var board: CredentialBoard!
        private let questions = Monitor<[String]>([])
        private var heard: [String] = []

        init() throws {
            loop = try EventLoop()
            loop.turn(waitingAtMost: TimeSpan(nanoseconds: 0))
            board = CredentialBoard(count: 2, loop: loop) { [questions] index, refused in
                questions.with { $0.append("\(index) \(refused.map(String.init) ?? "-")") }
            }
        }

        /// Gives the loop its turns until all are told: on a busy machine one turn's part may end behind the first of them.
        func tellAll() { while board.waiting > 0 { loop.turn(waitingAtMost: TimeSpan(nanoseconds: 0)) } }

        var asked: [String] { questions.with { $0 } }

        /// The outcomes that were told; some come in later turns where a turn has taken long.
        var told: [String] {
            for _ in 0..<4 { loop.turn(waitingAtMost: TimeSpan(nanoseconds: 0)) }
            return heard
        }

        var date: Int64 { loop.wallClock / 1_000_000 }

        func value(_ version: Int, end: Int64? = nil) throws -> CredentialValue {
            let output = try CredentialOutput(Array("value-\(version)-12345678".utf8), as: .plain, now: 0)
            return CredentialValue(
                CredentialDefinition(name: "c", source: .env(name: "C")),
                output,
                end: end,
                version: version
            )
        }

        func wait(_ name: String, after: CredentialValue? = nil) -> CredentialBoard.Ticket {
            board.whenReady(0, after: after) { [unowned self] outcome in
                switch outcome {
                case .success(let value): heard.append("\(name) \(value.version)")
                case .failure(let fault): heard.append("\(name) \(fault.code)")
                }
            }
        }

        func state(_ state: CredentialBoard.State) -> String {
            switch state {
            case .ready(let value): "ready \(value.version)"
            case .wait: "wait"
            case .failed(let fault): "failed \(fault.code)"
            }
        }
    }

    private let broken = CredentialFault(.source, "broken")

    @Test("a valid value is there at once; a new one is awaited")
    func values() throws {
        let stage = try Stage()
        #expect(stage.state(stage.board.value(0)) == "wait")
        stage.board.publish(0, CredentialNews(value: try stage.value(1)), .run)
        #expect(stage.state(stage.board.value(0)) == "ready 1" && stage.state(stage.board.value(1)) == "wait")
        stage.board.publish(0, CredentialNews(value: try stage.value(2, end: stage.date)), .run)
        #expect(stage.state(stage.board.value(0)) == "wait")
        stage.board.publish(0, CredentialNews(value: try stage.value(2, end: stage.date + 100)), .run)
        #expect(stage.state(stage.board.value(0)) == "ready 2")
        #expect(stage.asked.isEmpty)
    }

    @Test("between a failed run and the next one requests fail at once")
    func pauses() throws {
        let stage = try Stage()
        let pause = stage.loop.now + 10_000_000_000
        stage.board.publish(0, CredentialNews(fault: broken, pausedUntil: pause), .run)
        #expect(stage.state(stage.board.value(0)) == "failed source")
        stage.board.publish(0, CredentialNews(value: try stage.value(1, end: stage.date), pausedUntil: pause), .run)
        #expect(stage.state(stage.board.value(0)) == "failed ended")
        stage.board.publish(0, CredentialNews(fault: broken, pausedUntil: stage.loop.now), .run)
        #expect(stage.state(stage.board.value(0)) == "wait")
        stage.board.publish(0, CredentialNews(fault: broken, isRunning: true, pausedUntil: pause), .run)
        #expect(stage.state(stage.board.value(0)) == "wait")
    }

    @Test("many requests ask once, and all learn of the run's end")
    func waiting() throws {
        let stage = try Stage()
        for name in ["a", "b", "c"] { _ = stage.wait(name) }
        #expect(stage.asked == ["0 -"] && stage.board.waiting == 3)
        stage.board.publish(0, CredentialNews(isRunning: true), .wanted)
        #expect(stage.told.isEmpty)
        stage.board.publish(0, CredentialNews(value: try stage.value(1)), .run)
        stage.tellAll()
        #expect(stage.told == ["a 1", "b 1", "c 1"] && stage.board.waiting == 0)
        _ = stage.wait("d")
        #expect(stage.asked == ["0 -", "0 -"])
        stage.board.publish(0, CredentialNews(fault: broken), .wanted)
        #expect(stage.told.last == "d source")
    }

    @Test("a cancelled wait is told nothing")
    func cancellation() throws {
        let stage = try Stage()
        let first = stage.wait("a")
        _ = stage.wait("b")
        stage.board.cancel(0, first)
        stage.board.publish(0, CredentialNews(value: try stage.value(1)), .run)
        #expect(stage.told == ["b 1"])
        stage.board.cancel(0, first)
    }

    @Test("thousands of waiting requests are told in order, and may leave")
    func many() throws {
        let stage = try Stage()
        var tickets: [CredentialBoard.Ticket] = []
        var told: [Int] = []
        for number in 0..<5000 {
            tickets.append(
                stage.board.whenReady(0) { _ in
                    told.append(number)
                    // The next one goes away.
                    if number.isMultiple(of: 2), number + 1 < tickets.count {
                        stage.board.cancel(0, tickets[number + 1])
                    }
                }
            )
        }
        for number in stride(from: 0, to: 5000, by: 10) { stage.board.cancel(0, tickets[number]) }
        #expect(stage.board.waiting == 4500)
        stage.board.publish(0, CredentialNews(value: try stage.value(1)), .run)
        stage.tellAll()
        // Behind each that had left before, its neighbour stays.
        #expect(told == (0..<5000).filter { $0 % 10 != 0 && ($0.isMultiple(of: 2) || $0 % 10 == 1) })
    }

    @Test("the end of the policy ends all waits")
    func retired() throws {
        let stage = try Stage()
        let old = try stage.value(1)
        stage.board.publish(0, CredentialNews(value: old), .run)
        _ = stage.wait("a", after: old)
        _ = stage.wait("b")
        stage.board.retire()
        stage.tellAll()
        #expect(stage.told == ["a ended", "b ended"] && stage.board.waiting == 0)
    }

    @Test("after a 401 a newer value is used, or a renewal awaited")
    func unauthorized() throws {
        let stage = try Stage()
        let (old, new) = (try stage.value(1), try stage.value(2))
        stage.board.publish(0, CredentialNews(value: new), .run)
        #expect(stage.state(stage.board.refused401(0, old)) == "ready 2")
        stage.board.publish(0, CredentialNews(value: old), .run)
        #expect(stage.state(stage.board.refused401(0, old)) == "wait")
        for name in ["a", "b"] { _ = stage.wait(name, after: old) }
        #expect(stage.asked == ["0 1"])
        stage.board.publish(0, CredentialNews(value: old, isRunning: true), .refused(version: 1))
        // Requests that have no value yet use the one that there is.
        _ = stage.wait("c")
        stage.board.publish(0, CredentialNews(value: old, isRunning: true), .wanted)
        #expect(stage.told == ["c 1"])
        stage.board.publish(0, CredentialNews(value: new), .run)
        stage.tellAll()
        #expect(stage.told == ["c 1", "a 2", "b 2"])
    }

    @Test("a 401 is passed on soon after a run, or without a new value")
    func passedOn() throws {
        let stage = try Stage()
        let old = try stage.value(1)
        stage.board.publish(0, CredentialNews(value: old, pausedUntil: stage.loop.now + 10_000_000_000), .run)
        #expect(stage.state(stage.board.refused401(0, old)) == "failed ended")
        stage.board.publish(0, CredentialNews(value: old), .run)
        _ = stage.wait("a", after: old)
        stage.board.publish(0, CredentialNews(value: old, isRunning: true), .refused(version: 1))
        stage.board.publish(0, CredentialNews(value: old), .run)
        #expect(stage.told == ["a ended"])
    }

    @Test("the result of one run does not end the waits of another")
    func questions() throws {
        let stage = try Stage()
        let old = try stage.value(1)
        stage.board.publish(0, CredentialNews(value: old), .run)
        _ = stage.wait("a", after: old)
        _ = stage.wait("b")
        #expect(stage.asked == ["0 1", "0 -"])
        stage.board.publish(0, CredentialNews(value: old), .wanted)
        #expect(stage.told == ["b 1"] && stage.board.waiting == 1)
        stage.board.publish(0, CredentialNews(value: old), .refused(version: 1))
        #expect(stage.told == ["b 1", "a ended"])
    }
}
