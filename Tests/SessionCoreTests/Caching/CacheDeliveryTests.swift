// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import SessionCore
import TestSupport
import Testing

@Suite("The delivery of a response through the cache's stage")
struct CacheDeliveryTests {
    private typealias Phase = CacheDelivery.Phase

    private static let phases: [Phase] = [
        .deciding, .relaying, .dropping, .serving, .finishing, .over,
    ]

    /// A delivery on its way.
    ///
    /// - Parameters:
    ///   - isBackground: a refresh never relays.
    ///   - next: follows a dropped response.
    private func delivery(
        _ phase: Phase,
        isBackground: Bool = false,
        length: Int? = nil,
        next: CacheTransaction.Step = .forward(HeaderFields())
    ) -> CacheDelivery {
        var delivery = CacheDelivery(isBackground: isBackground)
        #expect(delivery.phase == .deciding)
        delivery.ask()
        if phase == .deciding { return delivery }
        #expect(delivery.receiveHead(length: length) == true)
        switch phase {
        case .relaying: #expect(delivery.relay(isStoring: true) == true)
        case .dropping: delivery.drop(followedBy: next)
        case .serving: delivery.serve(0..<9)
        case .finishing, .over:
            _ = delivery.relay(isStoring: true)
            delivery.leave(finishes: phase == .finishing)
        default: break
        }
        #expect(delivery.phase == phase)
        return delivery
    }

    private func name(_ end: CacheDelivery.OriginEnd) -> String {
        switch end {
        case .failure: "failure"
        case .relayed: "relayed"
        case .stored: "stored"
        case .followedBy(.forward): "forward"
        case .followedBy(.pass): "pass"
        case .followedBy(.gatewayTimeout): "504"
        case .followedBy: "another step"
        case .givenUp: "given up"
        }
    }

    // MARK: The origin

    @Test("a head from the origin is for the cache's decision")
    func head() {
        for phase in Self.phases {
            var delivery = delivery(phase)
            #expect(delivery.receiveHead(length: 5) == (phase == .deciding))
            #expect(delivery.phase == phase)
            #expect(delivery.length == (phase == .deciding ? 5 : nil))
        }
    }

    @Test("a piece of the origin's body is used by phase, and counts when received")
    func pieces() {
        let uses: [CacheDelivery.PieceUse] = [.hold, .relay, .drop, .store, .store, .refuse]
        for (phase, use) in zip(Self.phases, uses) {
            var delivery = delivery(phase)
            #expect(delivery.receive(4) == use)
            let isReceived = use == .relay || use == .store
            #expect(delivery.received == (isReceived ? 4 : 0))
            #expect(delivery.isReceiving == isReceived)
            #expect(delivery.isOver == (phase == .over))
        }
    }

    @Test("another request counts its response from the beginning")
    func again() {
        var delivery = delivery(.relaying)
        _ = delivery.receive(3)
        delivery.drop(followedBy: .forward(HeaderFields()))
        #expect(delivery.receive(UnwantedBody.limit) == .drop)
        #expect(delivery.receive(1) == .cancel)
        delivery.ask()
        #expect(delivery.phase == .deciding && delivery.received == 0)
        #expect(delivery.receiveHead(length: nil) == true)
        delivery.drop(followedBy: .forward(HeaderFields()))
        #expect(delivery.receive(1) == .drop)
    }

    @Test("a refresh receives what is stored, drops the rest, and ends")
    func background() {
        var storing = delivery(.deciding, isBackground: true)
        #expect(storing.relay(isStoring: true) == false)
        #expect(storing.receive(1) == .store && name(storing.originDidEnd(nil)) == "relayed")
        var other = delivery(.deciding, isBackground: true)
        #expect(other.relay(isStoring: false) == false)
        #expect(other.receive(1) == .drop && name(other.originDidEnd(nil)) == "pass")
        #expect(!other.asksAgain(afterFailure: false))
        var relayed = delivery(.deciding)
        #expect(relayed.relay(isStoring: false) && relayed.phase == .relaying)
    }

    @Test("the end of the origin's task leads to the next step of its phase")
    func end() {
        let lost = SessionError(.connectFailed, "lost")
        let cancelled = SessionError(.cancelled, "cancelled")
        let ends = ["failure", "relayed", "forward", "stored", "relayed", "given up"]
        for (phase, end) in zip(Self.phases, ends) {
            let delivery = delivery(phase)
            for error in [nil, lost, cancelled] { #expect(name(delivery.originDidEnd(error)) == end) }
        }
        let timeout = CacheTransaction.Step.gatewayTimeout(CacheStatus(.forward(.miss)))
        #expect(name(delivery(.dropping, next: timeout).originDidEnd(nil)) == "504")
        // Whoever gives a refresh up says nothing about the server.
        let asking = delivery(.deciding, isBackground: true)
        #expect([nil, lost, cancelled].map { name(asking.originDidEnd($0)) } == ["failure", "failure", "given up"])
        let dropping = delivery(.dropping, isBackground: true)
        #expect([nil, lost].map { name(dropping.originDidEnd($0)) } == ["forward", "given up"])
    }

    @Test("another request follows a dropped response, for a refresh only if it was received")
    func asksAgain() {
        for phase in Self.phases {
            #expect(delivery(phase).asksAgain(afterFailure: false) == (phase == .dropping))
        }
        #expect(delivery(.dropping).asksAgain(afterFailure: true))
        #expect(delivery(.dropping, isBackground: true).asksAgain(afterFailure: false))
        #expect(!delivery(.dropping, isBackground: true).asksAgain(afterFailure: true))
        #expect(!delivery(.dropping, next: .pass).asksAgain(afterFailure: false))
        var later = delivery(.dropping)
        later.ask()
        #expect(later.receiveHead(length: nil) && later.relay(isStoring: false))
        #expect(!later.asksAgain(afterFailure: false), "it was for the response before")
    }

    @Test("a body of known length is nearly whole when little is missing")
    func nearlyWhole() {
        var known = delivery(.relaying, length: 10)
        _ = known.receive(4)
        #expect(known.isNearlyWhole(within: 6) && !known.isNearlyWhole(within: 5))
        #expect(!delivery(.relaying).isNearlyWhole(within: .max))
    }

    // MARK: The receiver

    @Test("a receiver without room, or other readers, hold the origin up")
    func backPressure() {
        var relayed = delivery(.relaying)
        #expect(relayed.letsOriginSend && !relayed.isHeldUp)
        #expect(!relayed.pause() && !relayed.letsOriginSend && relayed.isHeldUp)
        #expect(relayed.resume() && relayed.letsOriginSend && !relayed.isHeldUp)
        #expect(relayed.resume() == false)
        relayed.isHeld = true
        #expect(relayed.letsOriginSend && relayed.isHeldUp)
        relayed.isHeldByReaders = true
        #expect(!relayed.letsOriginSend)
        var served = delivery(.serving)
        #expect(served.pause() && served.letsOriginSend && !served.isHeldUp)
        served.isHeldByReaders = true
        #expect(!served.letsOriginSend)
    }

    @Test("only a response that goes on can be paused")
    func pauses() {
        for phase in Self.phases where phase != .relaying && phase != .serving {
            var delivery = delivery(phase)
            #expect(!delivery.pause() && !delivery.resume())
        }
    }

    @Test("a receiver that reads the rest from the store stays paused")
    func rest() {
        var delivery = delivery(.relaying)
        _ = delivery.receive(7)
        #expect(delivery.pause() == false)
        delivery.serveRest()
        #expect(delivery.phase == .serving && delivery.letsOriginSend)
        #expect(delivery.beginSending() && delivery.next { 5 } == .nothing)
        #expect(delivery.resume() && delivery.beginSending() && delivery.next { 5 } == .piece(7..<12))
        #expect(delivery.receive(1) == .store)
        delivery.didSend(1 << 40)
        #expect(delivery.next { 5 } == .later, "its end is not known")
    }

    // MARK: A stored body

    private static let kilobyte = 1 << 10
    private static let piece = 128 << 10
    private static let turn = 1 << 20

    @Test("a small rest is one piece; else the receiver's wish counts, within limits")
    func sizes() {
        func first(_ body: Range<Int>, wanted: Int) -> CacheDelivery.Next {
            var delivery = delivery(.deciding)
            delivery.serve(body)
            #expect(delivery.beginSending() == true)
            return delivery.next { wanted }
        }
        #expect(first(3..<3 + Self.kilobyte, wanted: 1) == .piece(3..<3 + Self.kilobyte))
        #expect(first(3..<4 + Self.kilobyte, wanted: 1) == .piece(3..<4))
        #expect(first(0..<5000, wanted: 0) == .piece(0..<1), "it always goes on")
        #expect(first(0..<5000, wanted: 9000) == .piece(0..<5000))
        #expect(first(0..<Self.turn, wanted: .max) == .piece(0..<Self.piece))
        #expect(first(5..<5, wanted: .max) == .end)
    }

    @Test("after a megabyte others have their turn, then the delivery continues")
    func turns() {
        var delivery = delivery(.deciding)
        delivery.serve(10..<10 + Self.turn + 1)
        #expect(delivery.beginSending() == true)
        for place in 0..<8 {
            let start = 10 + place * Self.piece
            #expect(delivery.next { .max } == .piece(start..<start + Self.piece))
            delivery.didSend(Self.piece)
        }
        #expect(delivery.next { .max } == .later)
        #expect(delivery.beginSending() == false, "before the others' turn is over")
        delivery.endWait()
        #expect(delivery.beginSending() && delivery.next { .max } == .piece(10 + Self.turn..<11 + Self.turn))
        delivery.didSend(1)
        #expect(delivery.next { .max } == .end)
        var whole = self.delivery(.deciding)
        whole.serve(0..<Self.turn)
        #expect(whole.beginSending() == true)
        whole.didSend(Self.turn - 1)
        #expect(whole.next { .max } == .piece(Self.turn - 1..<Self.turn), "a megabyte is one turn")
    }

    @Test("one send runs at a time, and none after the end")
    func sending() {
        for phase in Self.phases {
            var delivery = delivery(phase)
            #expect(delivery.beginSending() == (phase == .serving))
            #expect(delivery.beginSending() == false)
        }
        var delivery = delivery(.serving)
        #expect(delivery.beginSending() == true)
        delivery.endSending()
        #expect(delivery.beginSending() && delivery.next { .max } == .piece(0..<9))
        delivery.leave(finishes: true)
        #expect(delivery.next { .max } == .nothing)
    }

    @Test("nothing is sent without room, without a piece, or while delivery is held")
    func waits() {
        var delivery = delivery(.serving)
        #expect(delivery.beginSending() && delivery.pause() && delivery.next { .max } == .nothing)
        #expect(delivery.resume() == true)
        delivery.isHeld = true
        #expect(delivery.beginSending() && delivery.next { .max } == .nothing)
        delivery.isHeld = false
        #expect(delivery.beginSending() == true)
        delivery.awaitPiece()
        #expect(delivery.next { .max } == .nothing)
        #expect(delivery.beginSending() == false, "the piece is not here yet")
        delivery.endWait()
        #expect(delivery.beginSending() == true)
        delivery.didSend(4)
        #expect(delivery.next { .max } == .piece(4..<9))
        delivery.dropUnsent()
        #expect(delivery.next { .max } == .end)
    }

    @Test("a stored body comes complete and in order, whatever its receiver does")
    func anyReceiver() {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<200 {
            var delivery = delivery(.deciding)
            let body = 3..<3 + Int.random(in: 0..<4 << 20, using: &random)
            delivery.serve(body)
            var sent = body.lowerBound
            var isComplete = false
            while !isComplete {
                guard delivery.beginSending() else {
                    Issue.record("it does not go on behind \(sent) of \(body)")
                    return
                }
                var step = CacheDelivery.Next.nothing
                repeat {
                    step = delivery.next { Int.random(in: 0..<1 << 20, using: &random) }
                    guard case .piece(let range) = step else { break }
                    #expect(range.lowerBound == sent && !range.isEmpty && range.upperBound <= body.upperBound)
                    // From a file all of the turn's part may go at once.
                    let turn = delivery.turn
                    #expect(turn.lowerBound == sent && turn.upperBound >= range.upperBound)
                    #expect(turn.upperBound <= body.upperBound && turn.count <= 1 << 20)
                    let most = Bool.random(using: &random) ? turn : range
                    let count = Int.random(in: 1...most.count, using: &random)
                    sent += count
                    delivery.didSend(count)
                    if Int.random(in: 0..<9, using: &random) == 0 { #expect(delivery.pause() == true) }
                    if Int.random(in: 0..<9, using: &random) == 0 { delivery.awaitPiece() }
                } while true
                isComplete = step == .end
                _ = delivery.resume()
                delivery.endWait()
            }
            #expect(sent == body.upperBound)
        }
    }
}
