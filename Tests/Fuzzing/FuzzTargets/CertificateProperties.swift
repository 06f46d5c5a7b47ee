// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport

/// Certificates, requests, keys and revocation lists, in PEM and DER.
final class CertificateProperties {
    private let server: TestServer
    private let anchors: TrustAnchors
    private let host: Host

    private let stapling: SecurityPolicy

    init(_ pki: FuzzPKI) throws {
        server = pki.server
        anchors = pki.pki.anchors
        host = Host(IPAddress(ipv4: 0xC000_0201))
        var settings = SecurityPolicy.Configuration()
        settings.requiresStaple = true
        stapling = try SecurityPolicy(settings)
    }

    /// An accepted object can be serialised and parsed again, is printed without control characters, and is never
    /// trusted.
    func certificates(_ bytes: [UInt8]) throws(FuzzFinding) {
        if let certificates = try? Certificate.certificates(in: bytes) {
            try queueIsClean("Certificate.certificates")
            guard !certificates.isEmpty else { throw FuzzFinding("no certificate, and no fault") }
            for certificate in certificates { try check(certificate) }
            try queueIsClean("what certificates say")
            let report = SecurityPolicy.unpinned.evaluate(
                chain: certificates,
                host: host,
                anchors: anchors,
                at: 1_800_000_000
            )
            // The signature covers every relevant bit: only the certificate itself passes.
            if report.isAccepted, !certificates[0].isSame(as: server.certificate) {
                throw FuzzFinding("a certificate that nobody signed is trusted")
            }
            try text(report.description)
            try queueIsClean("SecurityPolicy.evaluate")
        }
        try queueIsClean("Certificate.certificates refusing")
        do {
            for key in try PublicKey.keys(in: bytes) { try text(key.subject + key.keyDescription) }
        } catch let fault as CertificateFault {
            try text(fault.description)
        } catch {
            throw FuzzFinding("\(error)")
        }
        try queueIsClean("PublicKey.keys")
        do {
            _ = try RevocationLists(contents: [bytes])
        } catch {
            try text(error.description)
        }
        try queueIsClean("RevocationLists")
    }

    /// A key that matches the certificate is the key that was made for it.
    func privateKey(_ bytes: [UInt8]) throws(FuzzFinding) {
        do {
            for key in try PublicKey.keys(in: bytes) { try text(key.subject + key.keyDescription) }
        } catch let fault as CertificateFault {
            try text(fault.description)
        } catch {
            throw FuzzFinding("\(error)")
        }
        try queueIsClean("PublicKey.keys")
        do {
            _ = try ClientIdentity(certificate: server.certificate.derBytes, privateKey: bytes)
        } catch {
            try text(error.description)
        }
        try queueIsClean("ClientIdentity")
    }

    /// A staple is accepted, or refused with a reason on one line.
    func staple(_ bytes: [UInt8]) throws(FuzzFinding) {
        let report = stapling.evaluate(
            chain: server.chain,
            staple: bytes,
            host: host,
            anchors: anchors,
            at: 1_800_000_000
        )
        guard report.isAccepted == (report.failure == nil) else { throw FuzzFinding("accepted with a failure") }
        if report.isAccepted, report.goodUntil <= 1_800_000_000 { throw FuzzFinding("accepted after its end") }
        try text(report.description)
        try queueIsClean("SecurityPolicy.evaluate with a staple")
    }

    private func check(_ certificate: Certificate) throws(FuzzFinding) {
        _ = (certificate.notBefore, certificate.notAfter, certificate.serialNumber, certificate.isCA)
        try text(certificate.subject)
        try text(certificate.issuer)
        try text(certificate.keyDescription)
        for name in certificate.subjectAlternativeNames { try text(name.description) }
        let der = certificate.derBytes
        guard let again = try? Certificate(der: der), again.isSame(as: certificate),
            again.publicKeyPin == certificate.publicKeyPin
        else { throw FuzzFinding("a certificate that was read cannot be read again from what it writes") }
        guard let fromPEM = try? Certificate.certificates(in: Array(certificate.pem.utf8)), fromPEM.count == 1,
            fromPEM[0].isSame(as: certificate)
        else { throw FuzzFinding("a certificate that was read cannot be read again from its PEM") }
    }

    /// A remaining entry would be reported as the cause of a later failure on this thread.
    private func queueIsClean(_ place: String) throws(FuzzFinding) {
        guard ERR_peek_error() != 0 else { return }
        throw FuzzFinding("left in OpenSSL's error queue: \(OpenSSLError(draining: place))")
    }

    /// Texts go to terminals and logs.
    private func text(_ text: String) throws(FuzzFinding) {
        for scalar in text.unicodeScalars where scalar.disturbsLine {
            throw FuzzFinding("the character U+\(String(scalar.value, radix: 16)) in \(text.debugDescription)")
        }
    }
}
