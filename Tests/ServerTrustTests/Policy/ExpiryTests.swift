// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
import HTTPCore
import ServerTrust
import ServerTrustDates
import TestSupport
import Testing

@Suite("Ends that are near")
struct ExpiryTests {
    static let day: Int64 = 86_400
    /// 2027-02-01, the first second after the pin set's last day.
    private static let pinSetEnd: Int64 = 1_801_440_000

    private func evaluation(
        at now: Int64,
        certificateEnds: Int64 = TestPKI.validity.upperBound,
        _ change: (inout SecurityPolicy.Configuration) throws -> Void = { _ in }
    ) throws -> TrustEvaluation {
        let pki = try TestPKI()
        let server = try pki.server(
            CertificateBuilder.server(hosts: ["api.example.com"], validity: 1_577_836_800..<certificateEnds)
        )
        var configuration = SecurityPolicy.Configuration()
        configuration.domain = try Host("api.example.com")
        configuration.pinningMode = .publicKey
        configuration.pins = [Pin(server.pin), Pin(.unrelated())]
        try change(&configuration)
        return try SecurityPolicy(configuration).evaluate(
            chain: server.chain,
            host: Host("api.example.com"),
            anchors: pki.anchors,
            at: now
        )
    }

    @Test("a pin set is near its end from 30 days before it")
    func pinSet() throws {
        func days(_ now: Int64) throws -> Int? {
            let evaluation = try evaluation(at: now) { $0.expiration = CalendarDate("2027-01-31") }
            let near = evaluation.nearExpiry(at: now)
            #expect(near == nil || (near?.subject == .pinSet && near?.end == Self.pinSetEnd))
            return near?.days
        }
        #expect(try days(Self.pinSetEnd - 30 * Self.day - 1) == nil)
        #expect(try days(Self.pinSetEnd - 30 * Self.day) == 30)
        #expect(try days(Self.pinSetEnd - Self.day) == 1)
        #expect(try days(Self.pinSetEnd - 1) == 0)
        #expect(try days(Self.pinSetEnd) == nil)
    }

    @Test("a pinned domain's certificate is near its end by its remaining lifetime")
    func certificate() throws {
        let end = Self.pinSetEnd
        func near(_ now: Int64, domain: Host? = try? Host("api.example.com")) throws -> Expiry? {
            try evaluation(at: now, certificateEnds: end) { $0.domain = domain }.nearExpiry(at: now)
        }
        // Of seven years, which count as 200 days.
        #expect(try near(end - 67 * Self.day) == nil)
        let first = try #require(try near(end - 66 * Self.day))
        #expect(first.subject == .certificate && first.days == 66 && first.share == .third && first.end == end)
        #expect(try near(end - 20 * Self.day)?.share == .tenth)
        #expect(try near(end - 5 * Self.day, domain: nil) == nil)
    }

    @Test(
        "a third and a tenth of at most 200 days of lifetime are reported",
        arguments: [
            (6 * day, 2 * day, 51_840), (47 * day, 1_353_600, 406_080), (90 * day, 30 * day, 9 * day),
            (200 * day, 5_760_000, 20 * day), (7300 * day, 5_760_000, 20 * day), (0, 0, 0), (-day, 0, 0),
        ] as [(Int64, Int64, Int64)]
    )
    func shares(lifetime: Int64, third: Int64, tenth: Int64) {
        let end = Self.pinSetEnd
        let notice = CertificateNotice(begin: end - lifetime, end: end)
        #expect(notice.share(at: end - third - 1) == nil)
        if third > tenth {
            #expect(notice.share(at: end - third) == .third && notice.share(at: end - tenth - 1) == .third)
        }
        #expect(notice.share(at: end - tenth) == .tenth && notice.share(at: end) == .tenth)
        let far = CertificateNotice(begin: .min, end: .max)
        #expect(far.share(at: 0) == nil && CertificateNotice(begin: .max, end: .min).share(at: 0) == .tenth)
    }

    @Test("of a chain the certificate with the least remaining lifetime counts")
    func chains() throws {
        let now = Self.pinSetEnd
        let pki = try TestPKI()
        func server(_ leaf: Range<Int64>, _ above: Range<Int64>) throws -> [Certificate] {
            let issuer = try CertificateBuilder.authority("issuer", validity: above).identity(issuer: pki.root)
            let leaf = try CertificateBuilder.server(hosts: ["api.example.com"], validity: leaf).identity(
                issuer: issuer
            )
            return [leaf.certificate, issuer.certificate]
        }
        // The leaf of six days has just been renewed; its issuer ends in ten days.
        let renewed = try server(now - Self.day..<now + 5 * Self.day, now - 900 * Self.day..<now + 10 * Self.day)
        var configuration = SecurityPolicy.Configuration()
        configuration.domain = try Host("api.example.com")
        configuration.pinningMode = .publicKey
        configuration.pins = [Pin(renewed[0].publicKeyPin), Pin(.unrelated())]
        let evaluation = try SecurityPolicy(configuration)
            .evaluate(chain: renewed, host: Host("api.example.com"), anchors: pki.anchors, at: now)
        let near = try #require(evaluation.certificateExpiry(at: now))
        #expect(near.share == .tenth && near.days == 10)
        let notice = try #require(CertificateNotice(renewed))
        #expect(notice.end == now + 5 * Self.day && notice.share(at: now) == .tenth)
        #expect(CertificateNotice([renewed[0]])?.share(at: now) == nil)
    }

    @Test("of two ends the first is reported, and only where dates count")
    func both() throws {
        let now = Self.pinSetEnd - 5 * Self.day
        let both = try evaluation(at: now, certificateEnds: Self.pinSetEnd - 3 * Self.day) {
            $0.expiration = CalendarDate("2027-01-31")
        }
        #expect(both.nearExpiry(at: now)?.subject == .certificate)
        let dateless = try evaluation(at: now, certificateEnds: Self.pinSetEnd - 3 * Self.day) {
            $0.allowInvalidCertificates = true
        }
        #expect(dateless.verdict == .pass && dateless.nearExpiry(at: now) == nil)
    }

    @Test("programs use dates: the same moments as inside")
    func dates() throws {
        func date(_ seconds: Int64) -> Date { Date(timeIntervalSince1970: Double(seconds)) }
        let now = Self.pinSetEnd - 1
        let ends = Self.pinSetEnd + 5 * Self.day
        let evaluation = try evaluation(at: now, certificateEnds: ends) { $0.expiration = CalendarDate("2027-01-31") }
        #expect(evaluation.pinSetEndDate == date(Self.pinSetEnd) && evaluation.certificateEndDate == date(ends + 1))
        #expect(evaluation.expirationDate == date(Self.pinSetEnd))
        // The last second, and a part of it.
        #expect(evaluation.isStillGood(at: date(now)) && evaluation.isStillGood(at: date(now) + 0.9))
        #expect(!evaluation.isStillGood(at: date(Self.pinSetEnd)))
        #expect(evaluation.nearExpiry(at: date(now))?.date == date(Self.pinSetEnd))
        #expect(evaluation.nearExpiry(at: date(Self.pinSetEnd))?.subject == .certificate)
        #expect(CalendarDate("2027-01-31")?.endDate == date(Self.pinSetEnd))
        #expect(try self.evaluation(at: now).pinSetEndDate == nil)
        // Beyond all seconds.
        #expect(!evaluation.isStillGood(at: .distantFuture))
        #expect(
            Date(timeIntervalSince1970: 1e300).unixSeconds == .max
                && Date(timeIntervalSince1970: -1e300).unixSeconds == .min
        )
        #expect(Date(timeIntervalSince1970: -0.5).unixSeconds == -1)
    }
}
