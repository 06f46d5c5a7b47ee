// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("The report of a failed pin (RFC 7469, section 3)")
struct PinValidationReportTests {
    private static let time: Int64 = 1_795_305_600
    private let pki: TestPKI
    private let server: TestServer
    private let extra: Certificate

    init() throws {
        pki = try TestPKI()
        server = try pki.server("api.example.com")
        extra = try TestPKI("other").root.certificate
    }

    private func evaluate(
        at time: Int64 = time,
        chain: [Certificate]? = nil,
        _ change: (inout SecurityPolicy.Configuration) throws -> Void = { _ in }
    ) throws -> (TrustEvaluation, SecurityPolicy) {
        var configuration = SecurityPolicy.Configuration()
        configuration.domain = try Host("example.com")
        configuration.includesSubdomains = true
        configuration.pinningMode = .publicKey
        configuration.pins = [Pin(.unrelated(1)), Pin(.unrelated(2), isBackup: true)]
        configuration.expiration = CalendarDate("2027-01-31")
        try change(&configuration)
        let policy = try SecurityPolicy(configuration)
        let evaluation = policy.evaluate(
            chain: chain ?? server.chain + [extra],
            host: try Host("api.example.com"),
            anchors: pki.anchors,
            at: time
        )
        return (evaluation, policy)
    }

    private func report(
        at time: Int64 = time,
        _ change: (inout SecurityPolicy.Configuration) throws -> Void = { _ in }
    ) throws -> PinValidationReport? {
        let (evaluation, policy) = try evaluate(at: time, change)
        return PinValidationReport(evaluation, of: policy, port: 8443, at: time)
    }

    private func members(_ report: PinValidationReport) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(report.json.utf8)) as? [String: Any])
    }

    @Test("the report has the members of the RFC and two more")
    func wholeBody() throws {
        let report = try #require(try report())
        let body = try members(report)
        #expect(body["date-time"] as? String == "2026-11-22T00:00:00Z")
        #expect(body["hostname"] as? String == "api.example.com")
        #expect(body["port"] as? Int == 8443)
        #expect(body["effective-expiration-date"] as? String == "2027-01-31T23:59:59Z")
        #expect(body["include-subdomains"] as? Bool == true)
        #expect(body["noted-hostname"] as? String == "example.com")
        #expect(body["served-certificate-chain"] as? [String] == (server.chain + [extra]).map(\.pem))
        let validated = [server.certificate, pki.intermediate.certificate, pki.root.certificate]
        #expect(body["validated-certificate-chain"] as? [String] == validated.map(\.pem))
        let pins = [UInt8(1), 2].map { "pin-sha256=\"\(PublicKeyPin.unrelated($0).base64)\"" }
        #expect(body["known-pins"] as? [String] == pins)
        #expect(body["enforce-pinning"] as? Bool == true)
        #expect(body["validation-result"] as? String == "pin_mismatch")
        #expect(body.count == 11)
        #expect(!report.json.contains("\n"), "one line, for a file of them")
    }

    @Test("pins without an end have null, and report-only mode is shown")
    func variants() throws {
        let report = try #require(
            try report {
                $0.expiration = nil
                $0.includesSubdomains = false
                $0.enforcePinning = false
            }
        )
        let body = try members(report)
        #expect(body["effective-expiration-date"] is NSNull)
        #expect(body["include-subdomains"] as? Bool == false)
        #expect(body["enforce-pinning"] as? Bool == false)
    }

    @Test("a forbidden key and an expired set are reported as such")
    func otherResults() throws {
        let forbidden = try report { $0.forbiddenPins = [Pin(pki.intermediate.key.pin)] }
        #expect(forbidden?.result == .pinForbidden)
        let expired = try #require(try report(at: 1_801_440_000 + 86_400))
        #expect(expired.result == .pinSetExpired)
        #expect(expired.validatedChain.isEmpty, "an expired set that denies asks for no path")
        #expect(expired.servedChain.count == 3)
    }

    @Test("other results than failed pins are not reported")
    func nothingToReport() throws {
        #expect(try report { $0.pins.append(Pin(server.pin)) } == nil)
        let (broken, policy) = try evaluate(chain: [server.certificate])
        #expect(broken.failure == .certificateUntrusted)
        #expect(PinValidationReport(broken, of: policy, port: 443, at: Self.time) == nil)
    }

    @Test("reports are the same if only their times differ")
    func digests() throws {
        let first = try #require(try report())
        #expect(try report(at: Self.time + 60)?.digest == first.digest)
        #expect(first.digest.count == 32)
        let (evaluation, policy) = try evaluate()
        #expect(PinValidationReport(evaluation, of: policy, port: 443, at: Self.time)?.digest != first.digest)
        #expect(try report { $0.pins[0] = Pin(.unrelated(3)) }?.digest != first.digest)
        #expect(try report { $0.enforcePinning = false }?.digest != first.digest)
    }

    @Test(
        "an address for reports is an http or https URI, without user and fragment",
        arguments: [
            ("https://r.example.net/a?b=c", nil), ("http://r.example.net", nil), ("https://[::1]:8443/", nil),
            ("ftp://r.example.net/", .scheme), ("mailto:a@b.example", .scheme), ("r.example.net", .malformed),
            ("/reports", .malformed), ("", .malformed), ("https://", .malformed), ("https://a b/", .malformed),
            ("https://bücher.example/", .malformed), ("https://u@r.example.net/", .userInformation),
            ("https://u:p@r.example.net/", .userInformation), ("https://r.example.net/#x", .fragment),
            ("https://r.example.net/a@b", nil), ("https://2130706433/", .malformed),
            ("https://r.example.net:0/", .malformed),
        ] as [(String, ReportURI.Fault?)]
    )
    func addresses(text: String, fault: ReportURI.Fault?) {
        if let fault {
            #expect(throws: fault) { try ReportURI(text) }
        } else {
            #expect(throws: Never.self) { try ReportURI(text) }
        }
    }

    @Test("path and query stay as written, and an empty path is a slash")
    func targets() throws {
        for (text, target) in [
            ("https://r.example.net", "/"), ("https://r.example.net?a=b", "/?a=b"),
            ("https://r.example.net/x%20y?z", "/x%20y?z"),
        ] { #expect(try ReportURI(text).target == Array(target.utf8)) }
        #expect(try ReportURI("https://R.example.net:443/") == ReportURI("https://r.example.net/"))
    }
}
