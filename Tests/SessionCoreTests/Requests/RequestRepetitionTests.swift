// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Testing

@testable import SessionCore

@Suite("Rule 57: which requests are sent again")
struct RequestRepetitionTests {
    private func ending(_ cause: ExchangeEnding.Cause, begun: Bool = false) -> ExchangeEnding {
        ExchangeEnding(cause: cause, hasBegunResponse: begun, error: SessionError(.responseTruncated, "The end."))
    }

    /// The facts of an exchange, in the order of the arguments below.
    private func repetition(
        reused: Bool = false,
        body pieces: [[UInt8]] = [],
        wasRepeated: Bool = false
    ) -> RequestRepetition {
        var repetition = RequestRepetition()
        repetition.start(wasRepeated: wasRepeated)
        repetition.beginExchange()
        repetition.isOnReusedConnection = reused
        for piece in pieces {
            repetition.didTakeBody()
            repetition.keep(piece.span)
        }
        return repetition
    }

    /// The macro `#expect` copies what it looks into.
    private func check(_ isAllowed: Bool, _ expected: Bool, location: SourceLocation = #_sourceLocation) {
        #expect(isAllowed == expected, sourceLocation: location)
    }

    private static let most = [UInt8](repeating: 7, count: RequestRepetition.bodyLimit)

    @Test("an unprocessed request is repeated, also with a body kept whole")
    func notProcessed() {
        for isIdempotent in [true, false] {
            for reused in [true, false] {
                for (body, isAllowed) in [
                    ([], true), ([[1]], true), ([Self.most], true), ([Self.most, [1]], false),
                    ([[1], Self.most], false),
                ] {
                    let repetition = self.repetition(reused: reused, body: body)
                    check(repetition.allows(ending(.notProcessed), isIdempotent: isIdempotent), isAllowed)
                }
            }
        }
    }

    @Test("a request that needs HTTP/1.1 is repeated unless its body has begun")
    func http11Required() {
        check(repetition().allows(ending(.http11Required), isIdempotent: false), true)
        check(repetition(body: [[1]]).allows(ending(.http11Required), isIdempotent: true), false)
    }

    @Test("after a lost kept connection only an idempotent request without body is repeated")
    func connectionLost() {
        for reused in [true, false] {
            for isIdempotent in [true, false] {
                for body: [[UInt8]] in [[], [[1]]] {
                    let isAllowed = repetition(reused: reused, body: body)
                        .allows(ending(.connectionLost), isIdempotent: isIdempotent)
                    #expect(isAllowed == (reused && isIdempotent && body.isEmpty))
                }
            }
        }
    }

    @Test("a request whose exchange the origin has reset is not repeated")
    func reset() { check(repetition(reused: true).allows(ending(.reset), isIdempotent: true), false) }

    @Test(
        "no request is repeated after bytes of its response",
        arguments: [ExchangeEnding.Cause.notProcessed, .http11Required, .connectionLost, .reset]
    )
    func begunResponse(cause: ExchangeEnding.Cause) {
        check(repetition(reused: true).allows(ending(cause, begun: true), isIdempotent: true), false)
    }

    @Test(
        "no request goes from a connection that a client has authenticated to another one",
        arguments: [ExchangeEnding.Cause.notProcessed, .http11Required, .connectionLost]
    )
    func authenticated(cause: ExchangeEnding.Cause) {
        let repetition = repetition(reused: true)
        check(repetition.allows(ending(cause), isIdempotent: true, isAuthenticated: true), false)
        check(repetition.allows(ending(cause), isIdempotent: true, isAuthenticated: false), true)
    }

    @Test(
        "no request is sent a third time, by any level",
        arguments: [ExchangeEnding.Cause.notProcessed, .http11Required, .connectionLost]
    )
    func once(cause: ExchangeEnding.Cause) {
        check(repetition(reused: true, wasRepeated: true).allows(ending(cause), isIdempotent: true), false)
        var first = repetition(reused: true)
        check(first.allows(ending(cause), isIdempotent: true), true)
        var body = ByteBuffer()
        first.repeatRequest(restoring: &body)
        first.beginExchange()
        first.isOnReusedConnection = true
        check(first.allows(ending(cause), isIdempotent: true), false)
        // The next request of the same object.
        first.start(wasRepeated: false)
        first.beginExchange()
        first.isOnReusedConnection = true
        check(first.allows(ending(cause), isIdempotent: true), true)
    }

    @Test("the body comes back in order, before the bytes that were not taken")
    func body() {
        var repetition = self.repetition(body: [[1, 2], [3]])
        var body = ByteBuffer()
        body.append([4, 5])
        repetition.repeatRequest(restoring: &body)
        #expect(Array(copying: body.bytes) == [1, 2, 3, 4, 5])
        // The second exchange begins with nothing kept.
        repetition.beginExchange()
        repetition.repeatRequest(restoring: &body)
        #expect(Array(copying: body.bytes) == [1, 2, 3, 4, 5])
    }

    @Test("a body too large, or of a request that ended, is not kept")
    func forgottenBody() {
        var body = ByteBuffer()
        var large = repetition(body: [Self.most, [1], [2]])
        large.repeatRequest(restoring: &body)
        check(body.isEmpty, true)
        var ended = repetition(body: [[1]])
        ended.release()
        ended.repeatRequest(restoring: &body)
        check(body.isEmpty, true)
    }

    @Test("a new exchange begins without a taken body or a kept connection")
    func newExchange() {
        var repetition = self.repetition(reused: true, body: [Self.most, [1]])
        repetition.beginExchange()
        check(repetition.isOnReusedConnection, false)
        check(repetition.allows(ending(.notProcessed), isIdempotent: false), true)
        check(repetition.allows(ending(.http11Required), isIdempotent: false), true)
        check(repetition.allows(ending(.connectionLost), isIdempotent: true), false)
        repetition.didTakeBody()
        let piece: [UInt8] = [2]
        repetition.keep(piece.span)
        check(repetition.allows(ending(.notProcessed), isIdempotent: false), true)
    }

    @Test("the next request does not get the body of the one before")
    func nextRequest() {
        var repetition = self.repetition(body: [[1]])
        repetition.start(wasRepeated: false)
        repetition.beginExchange()
        let piece: [UInt8] = [2]
        repetition.keep(piece.span)
        var body = ByteBuffer()
        repetition.repeatRequest(restoring: &body)
        #expect(Array(copying: body.bytes) == [2])
    }
}
