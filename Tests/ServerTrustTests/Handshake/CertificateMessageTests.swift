// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore
import ServerTrust
import TestSupport
import Testing

/// What a peer may have decoded is decided before OpenSSL decodes it.
@Suite("The Certificate message before it is decoded")
struct CertificateMessageTests {
    // MARK: Building

    private static func length(_ count: Int, _ size: Int) -> [UInt8] {
        (0..<size).reversed().map { UInt8(truncatingIfNeeded: count >> ($0 * 8)) }
    }

    /// A message with these certificates.
    private static func message(_ certificates: [[UInt8]], isTLS13: Bool) -> [UInt8] {
        let extensions: [UInt8] = isTLS13 ? [0, 0] : []
        let entries = certificates.flatMap { certificate -> [UInt8] in
            length(certificate.count, 3) + certificate + extensions
        }
        return (isTLS13 ? [0] : []) + length(entries.count, 3) + entries
    }

    private static func element(_ tag: UInt8, _ contents: [UInt8]) -> [UInt8] {
        let count = contents.count
        let size = count < 0x80 ? [] : count < 0x100 ? length(count, 1) : length(count, 2)
        return [tag] + (size.isEmpty ? [UInt8(count)] : [0x80 | UInt8(size.count)] + size) + contents
    }

    private static func sequence(_ parts: [UInt8]...) -> [UInt8] { element(0x30, parts.flatMap { $0 }) }

    private static let curveOID: [UInt8] = [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]
    private static let ellipticOID: [UInt8] = [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01]
    private static let rsaOID: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01]

    /// A certificate as far as it is read: the algorithm identifier and the key are the arguments.
    private static func certificate(_ identifier: [UInt8], _ parameters: [UInt8], _ key: [UInt8]) -> [UInt8] {
        let info = sequence(sequence(element(0x06, identifier), parameters), element(0x03, [0] + key))
        let contents = sequence(
            element(0xA0, element(0x02, [2])),
            element(0x02, [1]),
            sequence(),
            sequence(),
            sequence(),
            sequence(),
            info
        )
        return sequence(contents, sequence(), element(0x03, [0]))
    }

    private static func rsa(_ modulus: [UInt8], _ exponent: [UInt8]) -> [UInt8] {
        certificate(rsaOID, element(0x05, []), sequence(element(0x02, modulus), element(0x02, exponent)))
    }

    private static func fault(_ certificates: [[UInt8]]) -> [CertificateMessage.Fault?] {
        [false, true].map { CertificateMessage.fault(in: message(certificates, isTLS13: $0).span, isTLS13: $0) }
    }

    private static func expect(
        _ fault: CertificateMessage.Fault?,
        _ certificates: [UInt8]...,
        at location: SourceLocation = #_sourceLocation
    ) {
        #expect(self.fault(certificates) == [fault, fault], sourceLocation: location)
    }

    // MARK: Certificates

    @Test("certificates with keys of every kind that is supported pass")
    func good() throws {
        let pki = TestPKI.shared
        for kind in [.p256, .p384, .p521, .ed25519, .rsa(bits: 2048), .rsaPSS(bits: 2048)] as [KeyPair.Kind] {
            let server = try pki.server("a.example.com", key: kind)
            let chain = (server.chain + [pki.root.certificate]).map(\.derBytes)
            #expect(Self.fault(chain) == [nil, nil], "\(kind)")
        }
        Self.expect(nil, Self.certificate(Self.ellipticOID, Self.element(0x06, Self.curveOID), [4]))
        // An algorithm that OpenSSL does not know is not decoded.
        Self.expect(nil, Self.certificate([0x2A, 0x03], Self.element(0x30, [1, 2, 3]), [1, 2]))
    }

    @Test("a curve without a name is refused")
    func explicitCurves() {
        for parameters in [
            Self.sequence(Self.element(0x02, [1])), [], Self.element(0x05, []),
            Self.element(0x06, Self.curveOID) + Self.sequence(),
        ] {
            Self.expect(.explicitCurve, Self.certificate(Self.ellipticOID, parameters, [4]))
        }
    }

    @Test("RSA keys have at most 8,192 bits, and exponents below 2^32")
    func rsaKeys() {
        let modulus = [0] + [UInt8](repeating: 0xFF, count: 1024)
        Self.expect(nil, Self.rsa(modulus, [1, 0, 1]))
        Self.expect(nil, Self.rsa(modulus, [0, 0xFF, 0xFF, 0xFF, 0xFF]))
        Self.expect(.largeRSAKey, Self.rsa([1] + modulus.dropFirst(), [1, 0, 1]))
        Self.expect(.largeRSAKey, Self.rsa([0xFF] + modulus.dropFirst(), [1, 0, 1]))
        Self.expect(.largeRSAExponent, Self.rsa(modulus, [1, 0, 0, 0, 1]))
        Self.expect(.largeRSAExponent, Self.rsa(modulus, [UInt8](repeating: 0x7F, count: 300)))
    }

    @Test("keys of DSA and Diffie-Hellman are refused")
    func finiteFields() {
        for identifier in [
            [0x2A, 0x86, 0x48, 0xCE, 0x38, 0x04, 0x01], [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x03, 0x01],
            [0x2A, 0x86, 0x48, 0xCE, 0x3E, 0x02, 0x01],
        ] as [[UInt8]] {
            Self.expect(.unsupportedKey, Self.certificate(identifier, Self.sequence(), [2, 1, 1]))
        }
    }

    @Test("each certificate of a message is read")
    func everyCertificate() throws {
        let good = TestPKI.shared.root.certificate.derBytes
        let bad = Self.certificate(Self.ellipticOID, Self.sequence(), [4])
        #expect(Self.fault([good, good, bad]) == [.explicitCurve, .explicitCurve])
        #expect(Self.fault([good, bad, good]) == [.explicitCurve, .explicitCurve])
    }

    // MARK: Messages

    @Test("a message has at most 16 certificates and 64 KB")
    func bounds() {
        let good = TestPKI.shared.root.certificate.derBytes
        #expect(Self.fault([]) == [nil, nil])
        #expect(Self.fault(Array(repeating: good, count: 16)) == [nil, nil])
        #expect(Self.fault(Array(repeating: good, count: 17)) == [.tooManyCertificates, .tooManyCertificates])
        let large = [UInt8](repeating: 0, count: 65_537)
        #expect(CertificateMessage.fault(in: large.span, isTLS13: false) == .tooLarge)
    }

    @Test("a certificate that is cut, or has a length of BER, is refused")
    func unreadable() {
        let good = TestPKI.shared.root.certificate.derBytes
        for count in stride(from: 0, to: good.count, by: 7) {
            Self.expect(.unreadable, Array(good.prefix(count)))
        }
        Self.expect(.unreadable, good + [0])
        // A length that is not said would hide the key from this reader, but not from OpenSSL.
        var endless = good
        endless[1] = 0x80
        Self.expect(.unreadable, endless)
        let whole = Self.message([good], isTLS13: true)
        for count in 0..<whole.count {
            let part = Array(whole.prefix(count))
            #expect(CertificateMessage.fault(in: part.span, isTLS13: true) == .unreadable)
        }
    }

    @Test("no bytes are read beyond the end")
    func anyBytes() {
        var random = SeededGenerator(seed: 7)
        let good = Self.message([TestPKI.shared.root.certificate.derBytes], isTLS13: true)
        for _ in 0..<20_000 {
            var bytes = good
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = .random(in: .min ... .max, using: &random)
            }
            _ = CertificateMessage.fault(in: bytes.span, isTLS13: Bool.random(using: &random))
        }
    }

    // MARK: In handshakes

    /// A certificate with a curve that is given by its equation, as OpenSSL makes and reads it.
    static func explicitCurve() throws -> Certificate {
        let finished = try Programs.run(
            "openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-pkeyopt",
                "ec_param_enc:explicit", "-nodes", "-subj", "/CN=explicit", "-keyout", "/dev/null",
            ]
        )
        return try #require(Certificate.certificates(in: Array(finished.output.utf8)).first)
    }

    @Test(
        "a client refuses a server before it decodes its certificates, and says why",
        arguments: [TLS1_2_VERSION, TLS1_3_VERSION]
    )
    func client(version: Int32) throws {
        let pki = TestPKI.shared
        let good = try pki.server("a.example.com")
        let explicit = try Self.explicitCurve()
        let spare = Array(repeating: pki.root.certificate, count: 15)
        let cases: [(chain: [Certificate], words: String?)] = [
            (good.chain, nil), (Array((good.chain + spare).prefix(16)), nil),
            (good.chain + spare, "more than 16 certificates"), (good.chain + [explicit], "by an equation"),
        ]
        for (chain, words) in cases {
            let client = InMemoryClient()
            try client.hold(to: .pinning(good.pin), host: Host("a.example.com"), anchors: pki.anchors)
            let server = try InMemoryServer(TestServer(identity: good.identity, chain: chain), version: version)
            let handshake = InMemoryHandshake(client, server)
            #expect(handshake.isFinished == (words == nil), "\(chain.count)")
            if let words { #expect(handshake.clientError.contains(words), "\(handshake.clientError)") }
            #expect((TLSVerification.evaluation(of: handshake.client) == nil) == (words != nil))
        }
    }

    @Test("no DHE is offered, and no group of a finite field", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func groups(version: Int32) throws {
        let pki = TestPKI.shared
        let good = try pki.server("a.example.com", key: .rsa(bits: 2048))
        for isBounded in [true, false] {
            let client = InMemoryClient()
            if isBounded {
                try client.hold(to: .pinning(good.pin), host: Host("a.example.com"), anchors: pki.anchors)
            }
            let server = try InMemoryServer(good, version: version)
            SSL_CTX_set_cipher_list(server.context, "DHE:@SECLEVEL=0")
            var groups = Array("ffdhe2048".utf8CString)
            SSL_CTX_ctrl(server.context, SSL_CTRL_SET_GROUPS_LIST, 0, &groups)
            SSL_CTX_ctrl(server.context, SSL_CTRL_SET_DH_AUTO, 1, nil)
            // The twin without bounds shows that the server is one that can be spoken to.
            #expect(InMemoryHandshake(client, server).isFinished == !isBounded)
        }
    }
}
