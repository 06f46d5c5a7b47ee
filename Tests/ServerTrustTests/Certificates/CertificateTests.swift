// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Certificates, keys and pins")
struct CertificateTests {
    private let pki: TestPKI
    private let server: TestServer

    init() throws {
        pki = try TestPKI()
        server = try pki.server("api.example.com", "192.0.2.1", "2001:db8::1")
    }

    @Test("a certificate gives its subject, its issuer and its dates")
    func fields() throws {
        var builder = CertificateBuilder.server(hosts: ["api.example.com"], validity: 1_000_000_000..<2_600_000_000)
        builder.serialNumber = 0xdead_beef
        builder.subject = [("O", "Exämple\u{1b}[31m"), ("CN", "api.example.com")]
        builder.names += [
            .uri("https://x.example/"), .email("a@x.example"), .ip("192.0.2.1"), .dnsBytes([0x61, 0, 0x62]),
        ]
        let certificate = try pki.server(builder).certificate
        #expect(certificate.subject == "O = Exämple\\1B[31m, CN = api.example.com")
        #expect(certificate.issuer == "CN = pinproxy test intermediate")
        #expect(certificate.notBefore == 1_000_000_000 && certificate.notAfter == 2_600_000_000)
        #expect(certificate.serialNumber == "DEADBEEF")
        #expect(!certificate.isCA && !certificate.isSelfIssued)
        #expect(pki.root.certificate.isCA && pki.root.certificate.isSelfIssued)
        #expect(
            certificate.subjectAlternativeNames.map(\.description) == [
                "DNS:api.example.com", "URI:https://x.example/", "email:a@x.example", "IP:192.0.2.1", "DNS:a?b",
            ]
        )
    }

    @Test("PEM and DER are the same certificate")
    func encodings() throws {
        let certificate = server.certificate
        let fromPEM = try #require(Certificate.certificates(in: Array(certificate.pem.utf8)).first)
        let fromDER = try Certificate(der: certificate.derBytes)
        #expect(fromPEM.isSame(as: certificate) && fromDER.isSame(as: certificate))
        #expect(fromPEM.publicKeyPin == server.pin)
        #expect(try !pki.renewed(server, hosts: "api.example.com").certificate.isSame(as: certificate))
        #expect(PublicKeyPin(subjectPublicKeyInfo: server.identity.key.publicKeyDER) == server.pin)
    }

    @Test("random bytes and mutated certificates are refused or read, and never crash")
    func fuzz() throws {
        var random = SeededGenerator(seed: 7)
        let der = server.certificate.derBytes
        let pem = Array(server.chainPEM.utf8)
        var read = 0
        for round in 0..<300 {
            var bytes = round % 2 == 0 ? der : pem
            for _ in 0...(random.next() % 4) {
                bytes[Int(random.next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: random.next())
            }
            if round % 5 == 0 { bytes.removeLast(Int(random.next() % UInt64(bytes.count))) }
            guard let certificates = try? Certificate.certificates(in: bytes) else { continue }
            read += 1
            for certificate in certificates {
                _ = (certificate.subject, certificate.notAfter, certificate.keyDescription, certificate.serialNumber)
                _ = (certificate.subjectAlternativeNames, certificate.isCA, certificate.pem)
            }
            let report = SecurityPolicy.unpinned.evaluate(
                chain: certificates,
                host: try Host("api.example.com"),
                anchors: pki.anchors,
                at: Scenario.now
            )
            // The signature covers every relevant bit: only the certificate itself passes.
            if report.isAccepted { #expect(certificates[0].isSame(as: server.certificate)) }
        }
        #expect(read > 50 && read < 300)
    }

    @Test("a certificate with an unknown key leaves nothing in OpenSSL's error queue")
    func errorQueue() throws {
        // The object identifier of P-256 becomes an unknown one.
        var der = server.certificate.derBytes
        let curve: [UInt8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]
        let place = try #require(der.indices.first { der[$0...].starts(with: curve) })
        der[place + 7] = 0x7f
        let certificate = try Certificate(der: der)
        #expect(certificate.keyDescription == "unknown key")
        _ = (certificate.subjectAlternativeNames, certificate.isCA, certificate.notAfter, certificate.subject)
        #expect(OpenSSLError(draining: "test").entries.isEmpty)
    }

    @Test("a subject with separators or direction marks is shown on one line")
    func disturbingSubject() throws {
        var builder = CertificateBuilder.server(hosts: ["a.example"], validity: TestPKI.validity)
        builder.subject = [("O", "a\u{85}b\u{2028}c\u{202e}d")]
        let certificate = try pki.server(builder).certificate
        #expect(certificate.subject == "O = a\u{fffd}b\u{fffd}c\u{fffd}d")
    }

    @Test("long texts of a certificate are cut; two long users stay different")
    func longTexts() throws {
        func certificate(_ last: String) throws -> Certificate {
            let name = String(repeating: "n", count: 60)
            var builder = CertificateBuilder.server(hosts: ["a.example"], validity: TestPKI.validity)
            builder.subject = (0..<600).map { _ in ("OU", name) } + [("CN", last)]
            builder.names = [.uri("https://a.example/" + String(repeating: "u", count: 30_000))]
            return try pki.server(builder).certificate
        }
        let (one, other) = (try certificate("one"), try certificate("other"))
        #expect(one.subject.unicodeScalars.count == 257 && one.subject.hasSuffix("…"))
        #expect(one.subject == other.subject && one.identity != other.identity)
        #expect(one.identity.hasPrefix(one.subject) && one.identity.utf8.count < 350)
        #expect(one.subjectAlternativeNames.map(\.description.unicodeScalars.count) == [261])
        #expect(server.certificate.identity == server.certificate.subject)
    }

    // MARK: - pins from

    @Test(
        "a certificate, request, public and private key have one pin, in PEM and DER",
        arguments: [KeyPair.Kind.p256, .rsa(bits: 2048), .ed25519, .rsaPSS(bits: 2048)]
    )
    func pinsFrom(kind: KeyPair.Kind) throws {
        let server = try pki.server("a.example", key: kind)
        let key = server.identity.key
        let inputs: [([UInt8], PublicKey.Source)] = [
            (Array(server.certificate.pem.utf8), .certificate), (server.certificate.derBytes, .certificate),
            (Array(try key.certificateRequestPEM(commonName: "a.example").utf8), .certificateRequest),
            (Array(key.publicKeyPEM.utf8), .publicKey), (key.publicKeyDER, .publicKey),
            (Array(key.privateKeyPEM.utf8), .privateKey), (key.privateKeyDER, .privateKey),
        ]
        for (bytes, source) in inputs {
            let keys = try PublicKey.keys(in: bytes)
            #expect(keys.map(\.pin) == [key.pin], "\(source)")
            #expect(keys.map(\.source) == [source])
        }
        #expect(try PublicKey.keys(in: Array(server.chainPEM.utf8)).map(\.pin) == [key.pin, pki.intermediate.key.pin])
    }

    @Test("a key with a password is refused, with the way around it")
    func protectedKey() throws {
        let key = try KeyPair(.p256)
        let fault = #expect(throws: CertificateFault.self) {
            try PublicKey.keys(in: Array(key.privateKeyPEM(password: "secret").utf8))
        }
        #expect(fault?.message == "a private key that is protected by a password")
        #expect(fault?.remedy.contains("openssl pkey") == true)
    }

    @Test(
        "a file without a key is refused",
        arguments: ["", "gibberish", "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"]
    )
    func noKey(text: String) {
        #expect(throws: CertificateFault.self) { try PublicKey.keys(in: Array(text.utf8)) }
    }

    // MARK: - Pins as text

    @Test("a pin is read strictly: 44 characters of base64, with or without the prefix")
    func pinText() throws {
        let pin = server.pin
        #expect(try PublicKeyPin(pin.description) == pin)
        #expect(try PublicKeyPin(pin.base64) == pin)
        #expect(PublicKeyPin(digest: pin.digest) == pin)
        #expect(
            try PublicKeyPin("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=") == PublicKeyPin(subjectPublicKeyInfo: [])
        )
        let zeros = String(repeating: "A", count: 42)
        #expect(try PublicKeyPin(zeros + "A=").digest == [UInt8](repeating: 0, count: 32))
        let bad = [
            zeros + "B=": PublicKeyPin.Fault.notBase64, zeros + "C=": .notBase64, zeros + "D=": .notBase64,
            zeros + "A": .notBase64, zeros + "==": .wrongLength(31),
            zeros + "AAA": .notBase64, zeros + "AAAAAA": .wrongLength(36), "": .notBase64, "sha256/": .notBase64,
            "SHA256/" + zeros + "A=": .notBase64, " " + zeros + "A=": .notBase64, zeros + "A=\n": .notBase64,
            zeros + "-=": .notBase64, "sha1/AAAAAAAAAAAAAAAAAAAAAAAAAAA=": .unknownDigest, "====": .notBase64,
            "./pin.pem": .notBase64,
        ]
        for (text, fault) in bad { #expect(throws: fault, "\(text)") { try PublicKeyPin(text) } }
    }
}
