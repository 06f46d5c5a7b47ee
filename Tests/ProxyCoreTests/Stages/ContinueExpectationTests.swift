// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import ProxyCore

@Suite("Expect: 100-continue, as a value")
struct ContinueExpectationTests {
    private func begun(isExpected: Bool = true, bodyHasBegun: Bool = false, originDecides: Bool = true)
        -> ContinueExpectation
    {
        var expectation = ContinueExpectation()
        expectation.begin(isExpected: isExpected, bodyHasBegun: bodyHasBegun, originDecides: originDecides)
        return expectation
    }

    @Test("a waiting client gets 100 (Continue) once, also after a restart")
    func once() {
        var expectation = begun()
        #expect(expectation.isForwarded && expectation.holdsClientBack(bodyHasBegun: false))
        let isSent = expectation.bodyIsWanted(bodyHasBegun: false)
        #expect(isSent && !expectation.holdsClientBack(bodyHasBegun: false))
        let isSentAgain = expectation.bodyIsWanted(bodyHasBegun: false)
        #expect(!isSentAgain)
        expectation.begin(isExpected: true, bodyHasBegun: false, originDecides: true)
        #expect(!expectation.isForwarded && !expectation.holdsClientBack(bodyHasBegun: false))
    }

    @Test("a client without the field, or with early bytes, does not wait")
    func none() {
        for var expectation in [begun(isExpected: false), begun(bodyHasBegun: true)] {
            let isSent = expectation.bodyIsWanted(bodyHasBegun: true)
            #expect(!expectation.isForwarded && !expectation.holdsClientBack(bodyHasBegun: true) && !isSent)
        }
    }

    @Test("the proxy decides where the origin does not, for each origin anew")
    func redirect() {
        var expectation = begun(originDecides: false)
        #expect(!expectation.isForwarded && expectation.holdsClientBack(bodyHasBegun: false))
        expectation.follow(keepsBody: true, bodyHasBegun: false, originDecides: true)
        #expect(expectation.isForwarded)
        expectation.follow(keepsBody: false, bodyHasBegun: false, originDecides: true)
        let isSent = expectation.bodyIsWanted(bodyHasBegun: false)
        #expect(!expectation.isForwarded && !isSent)
    }
}
