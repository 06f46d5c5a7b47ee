// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Trust stores for Java", .onOwnThreads)
struct TrustStoreTests {
    @Test("a PKCS #12 file has each certificate as an anchor, and no key")
    func certificates() throws {
        let folder = try TemporaryFolder()
        let certificates = try ["one", "two", "three"].map { try TestPKI($0).root.certificate }
        let path = try folder.write(bytes: TrustStore.pkcs12(certificates, password: "changeit"), as: "anchors.p12")
        let dump = try Programs.run("openssl", ["pkcs12", "-in", path, "-passin", "pass:changeit", "-nokeys"])
        #expect(dump.exitCode == 0, "\(dump.errors)")
        for certificate in certificates { #expect(dump.output.contains(certificate.pem)) }
        #expect(dump.output.split(separator: "BEGIN CERTIFICATE").count == 4)
        let wrong = try Programs.run("openssl", ["pkcs12", "-in", path, "-passin", "pass:other", "-nokeys"])
        #expect(wrong.exitCode != 0)
    }

    @Test("an authority without hosts signs for any of them, and for servers alone")
    func unconstrained() throws {
        let now: Int64 = 1_800_000_000
        let identity = try LocalAuthority.make(for: nil, name: "test", validity: now - 60..<now + 60)
        let authority = try LocalAuthority(identity)
        for host in ["api.example.com", "192.0.2.1", "2001:db8::1"] {
            #expect(try authority.objection(to: Host(host), at: now) == nil, "\(host)")
        }
        #expect(authority.certificate.permittedNames.isEmpty && authority.certificate.isBoundToServers)
    }
}
