// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import ProxyCore

@Suite("When the source of a credential is run")
struct CredentialLifeTests {
    private let broken = CredentialFault(.source, "the command ended with exit code 3")

    /// A life that holds a value from the time 0 on.
    private func life(endingAfter seconds: Int64?) -> CredentialLife {
        var life = CredentialLife(at: 0)
        #expect(life.next(at: 0) == true)
        life.didSucceed(end: seconds, isSame: false, at: 0, date: 0)
        return life
    }

    private func isRefused(_ demand: CredentialLife.Demand, _ code: CredentialFault.Code, _ text: String = "") -> Bool {
        if case .refuse(let fault) = demand { fault.code == code && fault.message.contains(text) } else { false }
    }

    @Test("the first run is due at once, and all requests wait for it")
    func first() {
        var life = CredentialLife(at: 5)
        #expect(life.nextDue == 5 && !life.hasValue)
        #expect(life.next(at: 5) && !life.next(at: 5) && life.nextDue == nil)
        for now in [Int64(5), 6, 40_000] { #expect(life.want(at: now, date: 0) == .wait) }
        life.didSucceed(end: nil, isSame: false, at: 50_000, date: 0)
        #expect(life.want(at: 50_000, date: 0) == .ready && life.version == 1)
        // A value without an end is not renewed by itself.
        #expect(life.nextDue == nil && life.want(at: .max, date: .max) == .ready)
    }

    @Test("a value is renewed at four fifths of its life")
    func renewal() {
        var life = life(endingAfter: 1000)
        #expect(life.nextDue == 800_000 && !life.next(at: 799_999))
        #expect(life.next(at: 800_000) == true)
        #expect(life.want(at: 990_000, date: 990) == .ready)
        #expect(life.want(at: 1_000_000, date: 1000) == .wait)
        life.didSucceed(end: 2100, isSame: false, at: 1_100_000, date: 1100)
        #expect(life.want(at: 1_100_000, date: 1100) == .ready && life.version == 2)
        #expect(life.nextDue == 1_900_000)
    }

    @Test("a value that ends soon is renewed after ten seconds at least")
    func shortLives() {
        var life = life(endingAfter: 3)
        #expect(life.nextDue == 10_000)
        #expect(life.want(at: 2999, date: 2) == .ready)
        #expect(isRefused(life.want(at: 3000, date: 3), .ended, "in 7 s"))
        #expect(life.next(at: 9999) == false)
        #expect(life.want(at: 10_000, date: 10) == .wait && life.next(at: 10_000))
    }

    @Test("external ends saturate")
    func extremes() {
        for (end, date) in [(Int64.max, Int64(0)), (.max, .min), (.min, .max), (0, 0), (.min, 0)] {
            var life = CredentialLife(at: 0)
            _ = life.next(at: 0)
            life.didSucceed(end: end, isSame: false, at: .max - 5, date: date)
            #expect((life.nextDue ?? 0) > 0)
        }
    }

    @Test("a failing source runs every ten seconds at most")
    func failures() {
        var life = CredentialLife(at: 0)
        var waits: [Int64] = []
        var now: Int64 = 0
        for _ in 0..<12 {
            #expect(life.next(at: now) == true)
            life.didFail(broken, dropsValue: false, at: now)
            #expect(isRefused(life.want(at: now + 1, date: 0), .source, "exit code 3; the source is run again in 10 s"))
            #expect(isRefused(life.want(at: now + 9999, date: 0), .source, "in 1 s"))
            waits.append((life.nextDue ?? 0) - now)
            now = life.nextDue ?? 0
        }
        #expect(waits == [10, 20, 40, 80, 160, 300, 300, 300, 300, 300, 300, 300].map { $0 * 1000 })
        _ = life.next(at: now)
        life.didFail(broken, dropsValue: false, at: now)
        #expect(life.want(at: now + 10_000, date: 0) == .wait && life.next(at: now + 10_000))
        life.didSucceed(end: nil, isSame: false, at: now + 10_001, date: 0)
        #expect(life.lastFailure == nil)
        life.noteChange()
        _ = life.next(at: now + 10_002)
        life.didFail(broken, dropsValue: true, at: now + 10_002)
        #expect(life.nextDue == now + 20_002)
    }

    @Test("the pause counts from the end of a run")
    func slowRuns() {
        var life = CredentialLife(at: 0)
        _ = life.next(at: 0)
        life.didFail(broken, dropsValue: false, at: 30_000)
        #expect(isRefused(life.want(at: 39_999, date: 0), .source))
        #expect(life.want(at: 40_000, date: 0) == .wait)
    }

    @Test("a failed renewal leaves the value; a missing file removes it")
    func failedRenewals() {
        var kept = life(endingAfter: 1000)
        _ = kept.next(at: 800_000)
        kept.didFail(broken, dropsValue: false, at: 800_000)
        #expect(kept.want(at: 999_000, date: 999) == .ready)
        #expect(kept.nextDue == 810_000 && kept.lastFailure == broken)

        var lost = life(endingAfter: nil)
        lost.noteChange()
        #expect(lost.nextDue == .min && lost.next(at: 1))
        lost.didFail(broken, dropsValue: true, at: 1)
        #expect(!lost.hasValue && isRefused(lost.want(at: 2, date: 2), .source))
    }

    @Test("after a 401 the source runs once, for all requests")
    func unauthorized() {
        var life = life(endingAfter: nil)
        #expect(life.didGetUnauthorized(version: 1, at: 20_000, date: 20) == .wait)
        #expect(life.didGetUnauthorized(version: 1, at: 20_000, date: 20) == .wait)
        #expect(life.next(at: 20_000) && !life.next(at: 20_000))
        #expect(life.didGetUnauthorized(version: 1, at: 20_001, date: 20) == .wait)
        // Others use the value that there is.
        #expect(life.want(at: 20_001, date: 20) == .ready)
        life.didSucceed(end: nil, isSame: false, at: 20_002, date: 20)
        // Whoever hears of it late has a newer value already.
        #expect(life.version == 2 && life.didGetUnauthorized(version: 1, at: 20_003, date: 20) == .ready)
    }

    @Test("a 401 within ten seconds of a run is passed on")
    func unauthorizedSoon() {
        var life = life(endingAfter: nil)
        #expect(isRefused(life.didGetUnauthorized(version: 1, at: 9999, date: 9), .ended, "in 1 s"))
        #expect(life.nextDue == nil)
        #expect(life.didGetUnauthorized(version: 1, at: 10_000, date: 10) == .wait)
        _ = life.next(at: 10_000)
        // The same value again: the next 401 waits for its ten seconds, too.
        life.didSucceed(end: nil, isSame: true, at: 10_500, date: 10)
        #expect(life.version == 1)
        #expect(isRefused(life.didGetUnauthorized(version: 1, at: 10_600, date: 10), .ended))
    }

    @Test("a changed file is read at once, whatever runs")
    func changes() {
        var life = life(endingAfter: nil)
        life.noteChange()
        #expect(life.next(at: 1) == true)
        life.noteChange()
        #expect(!life.next(at: 2) && life.nextDue == nil)
        life.didSucceed(end: nil, isSame: false, at: 3, date: 0)
        #expect(life.nextDue == .min && life.next(at: 3))
        life.didSucceed(end: nil, isSame: true, at: 4, date: 0)
        #expect(life.version == 2 && life.nextDue == nil)
    }
}
