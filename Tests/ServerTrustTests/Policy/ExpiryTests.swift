import FoundationEssentials
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Ends that are near")
struct ExpiryTests {
    private static let day: Int64 = 86_400
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

    @Test("a pin set is near its end from 30 days before, and not after it")
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

    @Test("a certificate of a pinned domain is near its end from 14 days before; another host's is nobody's matter")
    func certificate() throws {
        let end = Self.pinSetEnd
        func near(_ now: Int64, domain: Host? = try? Host("api.example.com")) throws -> Expiry? {
            try evaluation(at: now, certificateEnds: end) { $0.domain = domain }.nearExpiry(at: now)
        }
        // A certificate's notAfter is the last second that still counts as valid.
        let last = try #require(try near(end - 2 * Self.day)?.end)
        #expect(last == end + 1)
        #expect(try near(last - 14 * Self.day - 1) == nil)
        let first = try #require(try near(last - 14 * Self.day))
        #expect(first.subject == .certificate && first.days == 14)
        #expect(try near(last - 5 * Self.day, domain: nil) == nil)
    }

    @Test("of two ends the first is told, and dates that do not count are not")
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

    @Test("programs get and give dates: the same moments as inside")
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
