// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import TestSupport

/// Certificates, keys and the files that documents under test may name.
final class FuzzPKI {
    let folder: TemporaryFolder
    let pki: TestPKI
    let server: TestServer
    private let list: String

    init() throws {
        folder = try TemporaryFolder()
        pki = try TestPKI()
        server = try pki.server("api.example.com", "192.0.2.1")
        list = try RevocationListBuilder(validity: TestPKI.validity, revoked: [server.certificate])
            .pem(issuer: pki.intermediate)
        try folder.write(pki.root.certificate.pem, as: "root.pem")
        try folder.write(bytes: pki.root.certificate.derBytes, as: "root.der")
        try folder.write(list, as: "list.pem")
        _ = try server.write(to: folder, name: "server")
    }

    func certificateSeeds() throws -> [[UInt8]] {
        var seeds = [Array(server.chainPEM.utf8), Array(list.utf8), server.certificate.derBytes]
        seeds.append(pki.root.certificate.derBytes)
        for kind in [KeyPair.Kind.p384, .ed25519, .rsa(bits: 2048), .rsaPSS(bits: 2048)] {
            var builder = CertificateBuilder.server(
                hosts: ["a.example", "*.b.example", "2001:db8::1"],
                validity: TestPKI.validity
            )
            builder.subject = [("O", "Exämple\u{1b}"), ("CN", "a.example")]
            builder.names += [.uri("https://x.example/"), .email("a@x.example"), .dnsBytes([0x61, 0, 0x62])]
            let made = try pki.server(builder, key: kind)
            seeds.append(made.certificate.derBytes)
            seeds.append(Array(made.identity.key.publicKeyPEM.utf8))
            seeds.append(made.identity.key.publicKeyDER)
            seeds.append(Array(try made.identity.key.certificateRequestPEM(commonName: "a.example").utf8))
        }
        var authority = CertificateBuilder.authority("constrained", validity: TestPKI.validity)
        authority.permittedNames = ["example.com"]
        authority.excludedNames = ["no.example.com"]
        authority.pathLength = 0
        seeds.append(try authority.identity(issuer: pki.root).certificate.derBytes)
        return seeds
    }

    func privateKeySeeds() throws -> [[UInt8]] {
        var seeds: [[UInt8]] = []
        for kind in [KeyPair.Kind.p256, .ed25519, .rsa(bits: 2048), .rsaPSS(bits: 2048)] {
            let key = try KeyPair(kind)
            seeds.append(Array(key.privateKeyPEM.utf8))
            seeds.append(key.privateKeyDER)
            seeds.append(Array(key.privateKeyPEM(password: "secret").utf8))
        }
        seeds.append(Array((server.chainPEM + server.privateKeyPEM).utf8))
        seeds.append(Array(server.privateKeyPEM.utf8))
        return seeds
    }

    /// A staple that proves the server's certificate good, and some that do not.
    func stapleSeeds() throws -> [[UInt8]] {
        let good = OCSPResponseBuilder(server.certificate, issuer: pki.intermediate, validity: TestPKI.validity)
        let another = try pki.server("b.example")
        return [
            try good.der(),
            try good.with { $0.singleResponses[0].status = .revoked }.der(),
            try good.with { $0.singleResponses[0].status = .unknown }.der(),
            try good.with { $0.singleResponses[0].nextUpdate = nil }.der(),
            try good.with { $0.singleResponses[0].hasCriticalExtension = true }.der(),
            try good.with {
                $0.signer = another.identity; $0.sendsSigner = true; $0.others = [pki.root.certificate]
            }.der(),
            try good.with { $0.responseStatus = 1 }.der(),
        ]
    }
}
