// SPDX-License-Identifier: Apache-2.0
package import ServerTrust

/// A small public key infrastructure for tests: a root, an intermediate, and servers below it.
///
/// The validity period is long, so that tests over real connections pass on any day; tests of dates set the time of the
/// evaluation.
package struct TestPKI: Sendable {
    /// From 2020 to 2099, in seconds since 1970.
    package static let validity: Range<Int64> = 1_577_836_800..<4_070_908_800

    /// One shared PKI for all tests of a target, because making it takes longer than a request.
    package static let shared = try! TestPKI()

    package let root: Identity
    package let intermediate: Identity

    package init(_ name: String = "pinproxy test") throws {
        root = try CertificateBuilder.authority("\(name) root", validity: Self.validity).identity()
        intermediate = try CertificateBuilder.authority("\(name) intermediate", validity: Self.validity)
            .identity(issuer: root)
    }

    /// Anchors that trust the root alone.
    package var anchors: TrustAnchors { TrustAnchors(certificates: [root.certificate]) }

    /// A server certificate under the intermediate. Servers with RSA keys of one length share one key (`KeyPair.shared`).
    package func server(_ hosts: String..., key: KeyPair.Kind = .p256) throws -> TestServer {
        try server(CertificateBuilder.server(hosts: hosts, validity: Self.validity), key: key)
    }

    /// A server certificate of any shape under the intermediate.
    package func server(_ builder: CertificateBuilder, key: KeyPair.Kind = .p256) throws -> TestServer {
        let key = try KeyPair.shared(key)
        let identity = Identity(certificate: try builder.certificate(for: key, issuer: intermediate), key: key)
        return TestServer(identity: identity, chain: [identity.certificate, intermediate.certificate])
    }

    /// A second certificate for the key of a server, as after a renewal.
    package func renewed(_ server: TestServer, hosts: String...) throws -> TestServer {
        let certificate = try CertificateBuilder.server(hosts: hosts, validity: Self.validity)
            .certificate(for: server.identity.key, issuer: intermediate)
        return TestServer(
            identity: Identity(certificate: certificate, key: server.identity.key),
            chain: [certificate, intermediate.certificate]
        )
    }
}

/// The identity of a TLS server in a test.
package struct TestServer: Sendable {
    package var identity: Identity
    /// The chain as sent: the server's certificate, then the intermediates.
    package var chain: [Certificate]

    package init(identity: Identity, chain: [Certificate]) {
        self.identity = identity
        self.chain = chain
    }

    package var certificate: Certificate { identity.certificate }
    package var pin: PublicKeyPin { identity.key.pin }

    /// The chain in PEM, for the certificate file of a server program.
    package var chainPEM: String { chain.map(\.pem).joined() }
    package var privateKeyPEM: String { identity.key.privateKeyPEM }

    /// Writes `NAME.pem` (the chain) and `NAME.key` into a folder.
    ///
    /// - Returns: the two paths.
    package func write(to folder: TemporaryFolder, name: String) throws -> (certificate: String, key: String) {
        (try folder.write(chainPEM, as: "\(name).pem"), try folder.write(privateKeyPEM, as: "\(name).key"))
    }
}

extension KeyPair {
    private static let made = Monitor<[Kind: KeyPair]>([:])

    /// A key for a test: of elliptic curves a new one each time; of RSA the same one for all tests that want that length, since
    /// one of 4096 bits takes a second.
    package static func shared(_ kind: Kind) throws -> KeyPair {
        switch kind {
        case .p256, .p384, .p521, .ed25519: return try KeyPair(kind)
        case .rsa, .rsaPSS:
            return try made.with { made in
                if let key = made[kind] { return key }
                let key = try KeyPair(kind)
                made[kind] = key
                return key
            }
        }
    }
}

extension PublicKeyPin {
    /// A pin without a key, to be used as the second pin.
    package static func unrelated(_ number: UInt8 = 1) -> PublicKeyPin {
        PublicKeyPin(digest: [UInt8](repeating: number, count: 32))!
    }
}

extension SecurityPolicy {
    /// A policy in mode `publicKey` with a spare pin, for the pins given.
    package static func pinning(_ pins: PublicKeyPin...) throws -> SecurityPolicy {
        var configuration = Configuration()
        configuration.pinningMode = .publicKey
        configuration.pins = pins.map { Pin($0) } + [Pin(.unrelated(), isBackup: true)]
        return try SecurityPolicy(configuration)
    }
}

/// A pin file's text, for tests of programs that load one.
package enum PinFileText {
    /// One domain in mode `publicKey` with a spare pin.
    package static func pinning(_ domain: String, to pins: PublicKeyPin...) -> String {
        let list = (pins + [.unrelated()]).map { "\"\($0)\"" }.joined(separator: ", ")
        return """
            { "version": 1, "pinnedDomains": { "\(domain)": { "pinningMode": "publicKey", "pins": [\(list)] } } }
            """
    }
}
