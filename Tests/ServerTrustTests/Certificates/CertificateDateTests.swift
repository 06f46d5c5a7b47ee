// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore
import ServerTrustDates
import TestSupport
import Testing

@testable import ServerTrust

/// A server writes into its certificate what it likes, and a program gives any time for the evaluation.
@Suite("Invalid dates, and dates at the limits of numbers")
struct CertificateDateTests {
    private let pki: TestPKI
    private let host: Host

    init() throws {
        pki = try TestPKI()
        host = try Host(Scenario.host)
    }

    /// A server's certificate under the intermediate.
    private func server(_ dates: OddDates) throws -> TestServer {
        var builder = CertificateBuilder.server(hosts: [Scenario.host], validity: TestPKI.validity)
        dates.apply(to: &builder)
        return try pki.server(builder)
    }

    @Test("an invalid date is nil, and every other one a number", arguments: OddDates.allCases)
    func reading(_ dates: OddDates) throws {
        let certificate = try dates.server(Scenario.host).certificate
        #expect((certificate.notBefore != nil) == dates.hasBegin && (certificate.notAfter != nil) == dates.hasEnd)
        #expect((certificate.notValidBefore != nil) == dates.hasBegin)
        #expect((certificate.notValidAfter != nil) == dates.hasEnd)
        if dates == .year9999 { #expect(certificate.notAfter == 253_402_300_799) }
        if dates == .year0000 { #expect(certificate.notBefore == -62_167_219_200) }
    }

    @Test("a server with an invalid date is refused wherever dates count")
    func verdict() throws {
        for dates in OddDates.allCases where dates != .year9999 {
            let server = try server(dates)
            for anchors in [pki.anchors, TrustAnchors(certificates: [server.certificate])] {
                let refused = SecurityPolicy.unpinned.evaluate(
                    chain: server.chain,
                    host: host,
                    anchors: anchors,
                    at: Scenario.now
                )
                #expect(refused.verdict == .fail && !refused.isStillGood(at: Scenario.now), "\(dates): \(refused)")
            }
            var settings = SecurityPolicy.Configuration()
            settings.pinningMode = .publicKey
            settings.allowInvalidCertificates = true
            settings.pins = [Pin(server.pin), Pin(.unrelated(), isBackup: true)]
            let accepted = try SecurityPolicy(settings).evaluate(
                chain: server.chain,
                host: host,
                anchors: pki.anchors,
                at: Scenario.now
            )
            #expect(accepted.verdict == .pass && accepted.isStillGood(at: .max - 1), "\(dates): \(accepted)")
        }
        // The same set-up with a date that can be read passes.
        let good = SecurityPolicy.unpinned.evaluate(
            chain: try server(.year9999).chain,
            host: host,
            anchors: pki.anchors,
            at: Scenario.now
        )
        #expect(good.isAccepted, "\(good)")
    }

    @Test("a time at a limit is valid in verdicts, warnings and pin files", arguments: [Int64.min, .max])
    func endsOfTime(_ time: Int64) throws {
        var settings = SecurityPolicy.Configuration()
        settings.pinningMode = .publicKey
        settings.pins = [Pin(try server(.year9999).pin), Pin(.unrelated(), isBackup: true)]
        settings.expiration = CalendarDate(year: 2030, month: 1, day: 1)
        let policy = try SecurityPolicy(settings)
        let evaluation = policy.evaluate(
            chain: try server(.year9999).chain,
            host: host,
            anchors: pki.anchors,
            at: time
        )
        #expect(!evaluation.isAccepted)
        #expect(evaluation.nearExpiry(at: time) == nil && policy.pinSetExpiry(at: time) == nil)
        let text = """
            { "version": 1, "pinnedDomains": { "a.example": { "pinningMode": "publicKey", "expiration": "2030-01-01",
            "pins": ["\(PublicKeyPin.unrelated(1))", "\(PublicKeyPin.unrelated(2))"] } } }
            """
        let loaded = try PinFile.load(text: text, file: "/pins.json", at: time)
        #expect(loaded.domains.domains.count == 1)
    }

    @Test("a server without any certificate is refused")
    func emptyChain() throws {
        let evaluation = SecurityPolicy.unpinned.evaluate(chain: [], host: host, anchors: pki.anchors, at: Scenario.now)
        #expect(evaluation.verdict == .fail && evaluation.failure == .certificateUntrusted)
        #expect(evaluation.chain.isEmpty && evaluation.presentedChain.isEmpty)
        #expect("\(evaluation)".contains("showed no certificate"))
    }

    @Test("an own certificate with an invalid date cannot be loaded, an expired one can")
    func ownCertificates() throws {
        for dates in OddDates.allCases {
            var builder = CertificateBuilder.server(hosts: [Scenario.host], validity: TestPKI.validity)
            dates.apply(to: &builder)
            let own = try builder.identity()
            var authority = CertificateBuilder.authority("own", validity: TestPKI.validity)
            dates.apply(to: &authority)
            let signer = try authority.identity()
            func fault(_ load: () throws -> Void) -> String? {
                do {
                    try load()
                    return nil
                } catch { return "\(error)" }
            }
            let certificate = Array(own.certificate.pem.utf8)
            let key = Array(own.key.privateKeyPEM.utf8)
            let faults = [
                fault { _ = try ServerIdentity(certificate: certificate, privateKey: key) },
                fault { _ = try ClientIdentity(certificate: certificate, privateKey: key) },
                fault {
                    _ = try LocalAuthority(
                        certificate: Array(signer.certificate.pem.utf8),
                        privateKey: Array(signer.key.privateKeyPEM.utf8)
                    )
                },
            ]
            for fault in faults {
                #expect((fault == nil) == (dates.hasBegin && dates.hasEnd), "\(dates)")
                if let fault { #expect(fault.contains("is not a time"), "\(fault)") }
            }
        }
    }

    @Test("a certificate with an unencodable key has an unknown pin, and no trap")
    func noKey() throws {
        let pins = try (0..<2).map { _ in Certificate(owning: try #require(X509_new())).publicKeyPin }
        #expect(pins[0] != pins[1])
    }
}
