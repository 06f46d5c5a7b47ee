// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("The local CA", .onOwnThreads)
struct LocalAuthorityTests {
    private static let now: Int64 = 1_790_000_000
    private static let year = (now - 3600)..<(now + 365 * 86_400)

    private static func authority(_ hosts: String...) throws -> Identity {
        try LocalAuthority.make(for: try hosts.map { try Host($0) }, name: "test", validity: year)
    }

    @Test("the CA signs for its hosts and their subdomains alone")
    func isConstrained() throws {
        let authority = try LocalAuthority(try Self.authority("api.example.com", "example.org"))
        for host in ["api.example.com", "v1.api.example.com", "example.org", "deep.below.example.org"] {
            #expect(try authority.objection(to: try Host(host), at: Self.now) == nil, "\(host)")
        }
        for host in ["example.com", "xapi.example.com", "example.net", "127.0.0.1", "::1"] {
            let objection = try authority.objection(to: try Host(host), at: Self.now)
            #expect(objection?.contains("subtree violation") == true, "\(host): \(objection ?? "none")")
        }
        #expect(authority.certificate.permittedNames == ["api.example.com", "example.org"])
    }

    @Test("the CA knows without a signature which hosts are its own")
    func isMade() throws {
        let hosts = try ["api.example", "127.0.0.1"].map { try Host($0) }
        let identity = try LocalAuthority.make(for: hosts, name: "test", validity: Self.year)
        let authority = try LocalAuthority(identity, for: hosts)
        let now = Self.now
        let others = ["xapi.example", "example", "api.example.test", "127.0.0.2", "::1"]
        for (name, isMade) in ["api.example", "a.b.api.example", "127.0.0.1"].map({ ($0, true) })
            + others.map({ ($0, false) })
        {
            let host = try Host(name)
            #expect(authority.isMade(for: host) == isMade, "\(name)")
            // OpenSSL is of the same mind.
            #expect((try authority.objection(to: host, at: now) == nil) == isMade, "\(name)")
        }
        let none = try LocalAuthority(LocalAuthority.make(for: [], name: "test", validity: Self.year), for: [])
        #expect(try !none.isMade(for: Host("a.example")) && none.objection(to: Host("a.example"), at: now) != nil)
        #expect(try LocalAuthority(identity).isMade(for: Host("other.example")))
    }

    @Test("a CA for addresses signs for these alone")
    func signsForAddresses() throws {
        let authority = try LocalAuthority(try Self.authority("192.0.2.1", "2001:db8::1"))
        for host in ["192.0.2.1", "2001:db8::1"] {
            #expect(try authority.objection(to: try Host(host), at: Self.now) == nil, "\(host)")
        }
        for host in ["192.0.2.2", "2001:db8::2", "example.com"] {
            #expect(try authority.objection(to: try Host(host), at: Self.now) != nil, "\(host)")
        }
        #expect(authority.certificate.permittedNames.contains("192.0.2.1"))
    }

    @Test("the CA's constraints are critical, and it allows no CA below")
    func isCritical() throws {
        let identity = try Self.authority("example.com")
        let folder = try TemporaryFolder()
        let path = try folder.write(identity.certificate.pem, as: "ca.pem")
        let text = try Programs.run("openssl", ["x509", "-in", path, "-noout", "-text"]).output
        #expect(text.contains("X509v3 Name Constraints: critical"))
        #expect(text.contains("CA:TRUE, pathlen:0"))
        #expect(text.contains("Public Key Algorithm: id-ecPublicKey"))
    }

    @Test("the CA signs for TLS servers alone: openssl refuses other purposes")
    func isForServersAlone() throws {
        let identity = try Self.authority("example.com")
        let folder = try TemporaryFolder()
        let authority = try folder.write(identity.certificate.pem, as: "ca.pem")
        func verify(_ purpose: String, _ usages: [String], _ names: [CertificateBuilder.Name]) throws -> Int32 {
            var builder = CertificateBuilder(validity: Self.year)
            builder.subject = [("CN", "example.com")]
            builder.names = names
            builder.extendedKeyUsage = usages
            let leaf = try folder.write(try builder.identity(issuer: identity).certificate.pem, as: "leaf.pem")
            return try Programs.run(
                "openssl",
                ["verify", "-attime", "\(Self.now)", "-purpose", purpose, "-CAfile", authority, leaf]
            ).exitCode
        }
        let host = [CertificateBuilder.Name.dns("example.com")]
        #expect(try verify("sslserver", ["serverAuth"], host) == 0)
        for purpose in ["sslclient", "smimesign", "smimeencrypt"] {
            #expect(try verify(purpose, [], host) != 0, "\(purpose)")
            #expect(try verify(purpose, ["clientAuth", "emailProtection", "serverAuth"], host) != 0, "\(purpose)")
        }
        // It also refuses other names, for any purpose.
        for name in [
            CertificateBuilder.Name.email("a@example.com"), .uri("https://example.com/"),
            .uri("spiffe://example.com/a"),
            .ip("192.0.2.1"), .ip("2001:db8::1"),
        ] {
            #expect(try verify("any", [], [name]) != 0, "\(name)")
            #expect(try verify("sslserver", ["serverAuth"], host + [name]) != 0, "\(name)")
        }
    }

    @Test("a CA from before the binding to servers is read and recognised")
    func isBoundToServers() throws {
        #expect(try Self.authority("example.com").certificate.isBoundToServers)
        var older = CertificateBuilder.authority("pinproxy local CA old", validity: Self.year)
        older.pathLength = 0
        older.permittedNames = ["example.com"]
        older.excludedAddresses = ["0.0.0.0/0.0.0.0", "::/::"]
        let identity = try older.identity()
        let read = try LocalAuthority(
            certificate: Array(identity.certificate.pem.utf8),
            privateKey: Array(identity.key.privateKeyPEM.utf8)
        )
        #expect(!read.certificate.isBoundToServers)
        #expect(try read.objection(to: try Host("example.com"), at: Self.now) == nil)
    }

    @Test("clients object before the CA's beginning and after its end")
    func ends() throws {
        let authority = try LocalAuthority(try Self.authority("example.com"))
        let host = try Host("example.com")
        #expect(try authority.objection(to: host, at: Self.year.upperBound + 1)?.contains("expired") == true)
        #expect(try authority.objection(to: host, at: Self.year.lowerBound - 7200)?.contains("not yet valid") == true)
    }

    @Test("a signed certificate is a server's, short-lived, and for one name")
    func signsLeaves() throws {
        let long = (0..<6).map { _ in "a-rather-long-label" }.joined(separator: ".") + ".example.com"
        let authority = try LocalAuthority(try Self.authority("example.com"))
        for name in ["api.example.com", long] {
            let leaf = try authority.leaf(
                for: try Host(name),
                key: authority.leafKey,
                validity: Self.now..<(Self.now + 86_400)
            )
            #expect(leaf.certificate.subjectAlternativeNames == [.dns(name)])
            #expect(!leaf.certificate.isCA)
            #expect(leaf.certificate.notAfter == Self.now + 86_400)
        }
    }

    @Test("the CA is read from its two files")
    func isRead() throws {
        let identity = try Self.authority("example.com")
        let certificate = Array(identity.certificate.pem.utf8)
        let key = Array(identity.key.privateKeyPEM.utf8)
        let read = try LocalAuthority(certificate: certificate, privateKey: key)
        #expect(read.certificate.isSame(as: identity.certificate))
        #expect(try read.objection(to: try Host("example.com"), at: Self.now) == nil)
    }

    @Test("a certificate that is no CA, or has another key, is refused")
    func refusesOthers() throws {
        let pki = try TestPKI()
        let server = try pki.server("example.com")
        let identity = try Self.authority("example.com")
        func read(_ certificate: String, _ key: String) throws {
            _ = try LocalAuthority(certificate: Array(certificate.utf8), privateKey: Array(key.utf8))
        }
        #expect(throws: CertificateFault.self) { try read(server.certificate.pem, server.privateKeyPEM) }
        #expect(throws: CertificateFault.self) { try read(identity.certificate.pem, server.privateKeyPEM) }
        #expect(throws: CertificateFault.self) {
            try read(identity.certificate.pem + pki.root.certificate.pem, identity.key.privateKeyPEM)
        }
    }

    @Test("the fingerprint is what openssl prints")
    func hasFingerprint() throws {
        let identity = try Self.authority("example.com")
        let folder = try TemporaryFolder()
        let path = try folder.write(identity.certificate.pem, as: "ca.pem")
        let printed = try Programs.run("openssl", ["x509", "-in", path, "-noout", "-fingerprint", "-sha256"]).output
        #expect(printed.contains(identity.certificate.fingerprint))
    }
}
