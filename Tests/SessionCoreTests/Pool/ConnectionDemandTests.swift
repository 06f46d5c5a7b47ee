// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SessionCore

@Suite("The connections that a request may have")
struct ConnectionDemandTests {
    private static let causes: [ExchangeEnding.Cause] = [.notProcessed, .http11Required, .connectionLost, .reset]

    private func demand() -> ConnectionDemand { ConnectionDemand(offersHTTP2: true) }

    @Test("only a request of an endpoint with HTTP/2, without a stream, shares a connection")
    func shareable() {
        #expect(demand().isShareable && !demand().isExclusive)
        #expect(!ConnectionDemand().isShareable)
        let stream = ConnectionDemand(offersHTTP2: true, isExclusive: true)
        #expect(!stream.isShareable && stream.isExclusive)
        var own = demand()
        own.beAuthenticated()
        #expect(!own.isShareable)
    }

    @Test("a stream, or a request with others' credentials, is never authenticated by its client")
    func authenticated() {
        for (isExclusive, hasCredentials) in [(false, false), (true, false), (false, true), (true, true)] {
            for offersHTTP2 in [true, false] {
                var demand = ConnectionDemand(
                    offersHTTP2: offersHTTP2,
                    isExclusive: isExclusive,
                    hasCredentials: hasCredentials
                )
                #expect(demand.mayBeAuthenticated == (!isExclusive && !hasCredentials))
                #expect(demand.isShareable == (offersHTTP2 && !isExclusive), "whatever it gets")
                guard demand.mayBeAuthenticated else { continue }
                demand.beAuthenticated()
                #expect(demand.mayBeAuthenticated && !demand.isShareable)
            }
        }
    }

    @Test("a failed handshake that did not offer HTTP/2 is made again with it, once")
    func failedHandshake() {
        var demand = demand()
        #expect(demand.triesHTTP2() == true)
        #expect(demand.isShareable)
        #expect(demand.triesHTTP2() == false)
        var plain = ConnectionDemand()
        #expect(plain.triesHTTP2() == false)
        var stream = ConnectionDemand(offersHTTP2: true, isExclusive: true)
        #expect(stream.triesHTTP2() == false)
        var own = self.demand()
        own.beAuthenticated()
        #expect(own.triesHTTP2() == false)
    }

    @Test("each cause of a second exchange excludes the connections of the first one", arguments: causes)
    func again(cause: ExchangeEnding.Cause) {
        var demand = demand()
        demand.repeatRequest(after: cause, sharedMadeAt: 7)
        #expect(demand.canShare(madeAt: 7) == (cause != .connectionLost))
        #expect(demand.canShare(madeAt: 8))
        #expect(demand.isShareable == (cause != .http11Required))
        #expect(demand.canJoinDial == (cause != .notProcessed))
        #expect(!demand.isExclusive)
    }

    @Test("the loss of a connection that was not shared excludes none")
    func lostAlone() {
        var demand = demand()
        demand.repeatRequest(after: .connectionLost, sharedMadeAt: nil)
        #expect(demand.canShare(madeAt: 0) && demand.isShareable && demand.canJoinDial)
    }
}
