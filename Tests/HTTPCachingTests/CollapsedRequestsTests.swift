// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import HTTPCaching

@Suite("Collapsed requests")
struct CollapsedRequestsTests {
    private let key: CacheKey

    init() throws { key = try CachingStage.key("https://a.example/") }

    private func collapsed(_ count: Int) -> CollapsedRequests<Int> {
        var requests = CollapsedRequests<Int>(patience: 100, memory: 1000)
        for number in 0..<count { _ = requests.join(number, for: key, now: UInt64(number)) }
        return requests
    }

    @Test("4: of 500 requests for one cold URI one reaches the origin for all")
    func oneLeader() {
        var requests = CollapsedRequests<Int>(patience: 100, memory: 1000)
        #expect(requests.join(0, for: key, now: 5) == .lead)
        for number in 1..<500 { #expect(requests.join(number, for: key, now: 5) == .wait(until: 105)) }
        #expect(requests.finished(0, for: key) == (1..<500).map { .lookUp($0) })
        #expect(requests.join(0, for: key, now: 6) == .lead)
    }

    @Test("4: a response that is not shareable sends all followers to the origin")
    func notForOthers() {
        var requests = collapsed(3)
        #expect(requests.isNotForOthers(0, for: key, now: 10) == [.goAlone(1), .goAlone(2)])
        #expect(requests.join(3, for: key, now: 1009) == .goAlone)
        #expect(requests.join(4, for: key, now: 1010) == .lead)
        #expect(requests.finished(0, for: key) == [])
    }

    @Test("4: when the leader fails, all followers go at once; later requests wait again")
    func failure() {
        var requests = collapsed(4)
        #expect(requests.failed(0, for: key) == [.goAlone(1), .goAlone(2), .goAlone(3)])
        #expect(requests.failed(1, for: key) == [])
        #expect(requests.join(4, for: key, now: 9) == .lead)
        #expect(requests.join(5, for: key, now: 9) == .wait(until: 109))
    }

    @Test("4: when the leader's client has gone, the one that has waited longest leads")
    func abandoned() {
        var requests = collapsed(3)
        #expect(requests.abandoned(0, for: key) == [.lead(1)])
        #expect(requests.abandoned(1, for: key) == [.lead(2)])
        #expect(requests.abandoned(2, for: key) == [])
        #expect(requests.join(3, for: key, now: 9) == .lead)
    }

    @Test("4: followers wait for a bounded time")
    func patience() {
        var requests = collapsed(3)
        #expect(requests.expire(key, now: 100) == [])
        #expect(requests.expire(key, now: 101) == [.goAlone(1)])
        #expect(requests.followerCount == 1)
        #expect(requests.finished(0, for: key) == [.lookUp(2)])
    }

    @Test("a follower whose client is gone gets nothing, and the leader still leads")
    func leaving() {
        var requests = collapsed(3)
        requests.leave(1, for: key)
        #expect(requests.finished(2, for: key) == [])
        #expect(requests.isNotForOthers(2, for: key, now: 5) == [])
        #expect(requests.failed(2, for: key) == [])
        #expect(requests.finished(0, for: key) == [.lookUp(2)])
    }

    @Test("a background revalidation leads unless another request is at the origin")
    func refreshes() {
        var requests = collapsed(1)
        #expect(requests.lead(7, for: key) == false)
        #expect(requests.isNotForOthers(0, for: key, now: 10) == [])
        #expect(requests.join(1, for: key, now: 11) == .goAlone)
        #expect(requests.lead(8, for: key) == true)
        #expect(requests.lead(9, for: key) == false)
        #expect(requests.join(2, for: key, now: 11) == .goAlone)
        // Requests wait for it when the time is over.
        #expect(requests.join(3, for: key, now: 1010) == .wait(until: 1110))
        #expect(requests.finished(8, for: key) == [.lookUp(3)])
        #expect(requests.lead(9, for: key) == true)
    }

    @Test("above a number of followers requests go alone; other keys are not affected")
    func bounds() throws {
        var requests = CollapsedRequests<Int>(patience: 100, memory: 1000, followersAtMost: 1)
        #expect(requests.join(0, for: key, now: 0) == .lead)
        #expect(requests.join(1, for: key, now: 0) == .wait(until: 100))
        #expect(requests.join(2, for: key, now: 0) == .goAlone)
        #expect(requests.join(3, for: try CachingStage.key("https://b.example/"), now: 0) == .lead)
    }
}
