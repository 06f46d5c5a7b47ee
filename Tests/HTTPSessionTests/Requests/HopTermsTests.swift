// SPDX-License-Identifier: Apache-2.0
import IOCore
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("The terms of a task's next request")
struct HopTermsTests {
    @Test("a hop has the task's remaining time, and none begins without any")
    func total() throws {
        var timeouts = TaskTimeouts()
        timeouts.spans.connect = .seconds(3)
        #expect(timeouts.remaining(after: .seconds(9)) == nil)
        #expect(try timeouts.next(after: .seconds(9)) == timeouts)
        timeouts.spans.total = .seconds(5)
        #expect(timeouts.remaining(after: .seconds(2)) == .seconds(3))
        #expect(timeouts.remaining(after: .seconds(5)) == TimeSpan(nanoseconds: 1))
        let next = try timeouts.next(after: .seconds(4))
        #expect(next.spans.total == .seconds(1) && next.spans.connect == .seconds(3))
        for spent in [5, 6] {
            #expect(throws: SessionError.self) { try timeouts.next(after: .seconds(spent)) }
        }
    }

    @Test("the request's cache policy counts before the session's, and only for data tasks")
    func cachePolicy() throws {
        var request = HTTPSessionRequest(url: "https://a.test/")
        #expect(try request.cachePolicy(.returnCacheDataElseLoad, isData: true) == .returnCacheDataElseLoad)
        #expect(try request.cachePolicy(.returnCacheDataElseLoad, isData: false) == nil)
        #expect(throws: SessionError.self) { try request.cachePolicy(.returnCacheDataDontLoad, isData: false) }
        request.cachePolicy = .useProtocolCachePolicy
        #expect(try request.cachePolicy(.returnCacheDataDontLoad, isData: true) == .useProtocolCachePolicy)
        #expect(try request.cachePolicy(.returnCacheDataDontLoad, isData: false) == nil)
    }
}
