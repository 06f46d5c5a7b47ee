// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@Suite("Files that pin files name")
struct PinFileCredentialTests {
    private let pki: TestPKI
    private let server: TestServer
    private let folder: TemporaryFolder
    private static let now: Int64 = 1_800_000_000
    private static let pins = "\"pins\": [\"\(PublicKeyPin.unrelated(1))\", \"\(PublicKeyPin.unrelated(2))\"]"

    init() throws {
        pki = try TestPKI()
        server = try pki.server("api.example.com", key: .p256)
        folder = try TemporaryFolder()
    }

    private func load(_ body: String) throws -> SecurityPolicy {
        let text = "{ \"version\": 1, \"pinnedDomains\": { \"api.example.com\": { \(body) } } }"
        let path = try folder.write(text, as: "pins/p.json")
        let loaded = try PinFile.load(path: path, at: Self.now)
        return try #require(loaded.domains.policy(host: Host("api.example.com"), port: 443))
    }

    private func issues(_ body: String) throws -> [DocumentIssue] {
        do {
            _ = try load(body)
            return []
        } catch let issues as DocumentIssues {
            return issues.issues
        }
    }

    /// The one issue of a domain that names `file` under `key`.
    private func issue(_ body: String, at pointer: String) throws -> String {
        let issues = try issues(body)
        #expect(issues.count == 1, "\(issues)")
        let issue = try #require(issues.first)
        #expect(issue.pointer == "/pinnedDomains/api.example.com" + pointer)
        return issue.description
    }

    private func certificateMode(_ file: String) -> String {
        "\"pinningMode\": \"certificate\", \"pinnedCertificates\": [\"\(file)\"]"
    }

    @Test("64 PEM and DER are recognised by content; one PEM may hold several")
    func formats() throws {
        try folder.write(server.certificate.pem, as: "pins/certs/a.txt")
        try folder.write(bytes: server.certificate.derBytes, as: "pins/certs/a.pem")
        try folder.write("Some words before\n" + server.chainPEM, as: "pins/certs/chain.pem")
        for file in ["certs/a.txt", "certs/a.pem"] {
            let policy = try load(certificateMode(file))
            #expect(policy.pinnedCertificates.map(\.derBytes) == [server.certificate.derBytes])
        }
        let several = try load(certificateMode("certs/chain.pem"))
        #expect(several.expectedPins == [server.pin, pki.intermediate.key.pin])
        // Its two keys are two pins in mode publicKey.
        #expect(try load("\"pinnedCertificates\": [\"certs/chain.pem\"]").expectedPins.count == 2)
        #expect(try load("\"pinnedCertificates\": [\"\(folder.path)/pins/certs/chain.pem\"]").expectedPins.count == 2)
    }

    @Test("64 unusable certificate files of every kind are refused")
    func badFiles() throws {
        let half = server.certificate.derBytes.dropLast(20)
        try folder.write("gibberish", as: "pins/gibberish")
        try folder.write("", as: "pins/empty")
        try folder.write(server.privateKeyPEM, as: "pins/key")
        try folder.write(server.certificate.pem + server.privateKeyPEM, as: "pins/both")
        try folder.write(server.certificate.pem.replacing("MII", with: "M!I", maxReplacements: 1), as: "pins/damaged")
        try folder.write(bytes: Array(half), as: "pins/half")
        try folder.write(bytes: server.certificate.derBytes + [0], as: "pins/more")
        try folder.write(try server.identity.key.certificateRequestPEM(commonName: "x"), as: "pins/request")
        let expected = [
            "gibberish": "not a certificate in PEM or DER", "empty": "not a certificate", "key": "a private key where",
            "both": "a private key where", "damaged": "a damaged PEM block", "half": "not a certificate in PEM or DER",
            "more": "not a certificate in PEM or DER", "request": "a PEM block \"CERTIFICATE REQUEST\"",
            "absent": "No such file", "../pins": "not a regular file",
        ]
        for (file, message) in expected {
            let text = try issue(certificateMode(file), at: "/pinnedCertificates/0")
            #expect(text.contains(message), "\(file): \(text)")
        }
    }

    @Test("a certificate pinned twice, and one with a forbidden key, are errors")
    func contradictions() throws {
        try folder.write(server.certificate.pem, as: "pins/a")
        try folder.write(bytes: server.certificate.derBytes, as: "pins/b")
        let mode = "\"pinningMode\": \"certificate\""
        let twice = "\(mode), \"pinnedCertificates\": [\"a\", \"b\"]"
        #expect(try issue(twice, at: "/pinnedCertificates/1").contains("is pinned already"))
        let forbidden = "\(certificateMode("a")), \"forbiddenPins\": [\"\(server.pin)\"]"
        #expect(try issue(forbidden, at: "/pinnedCertificates/0").contains("its key is a forbidden one"))
        let pins = "\(certificateMode("a")), \(Self.pins)"
        #expect(try issue(pins, at: "/pins").contains("mode certificate looks at certificates"))
    }

    @Test("an unreadable certificate is the only issue, without missing pins")
    func noFollowUps() throws {
        #expect(try issue("\"pinnedCertificates\": [\"absent\"]", at: "/pinnedCertificates/0").contains("absent"))
    }

    @Test("a domain has its own trust anchors")
    func trustAnchors() throws {
        try folder.write(pki.root.certificate.pem, as: "pins/root.pem")
        let own = "\(Self.pins), \"trustAnchors\": { \"system\": false, \"files\": [\"root.pem\"] }"
        #expect(try load(own).configuration.trustAnchors?.count == 1)
        let absent = "\(Self.pins), \"trustAnchors\": { \"files\": [\"absent.pem\"] }"
        #expect(try issue(absent, at: "/trustAnchors/files/0").contains("No such file"))
        try folder.write(server.privateKeyPEM, as: "pins/key")
        let key = "\(Self.pins), \"trustAnchors\": { \"system\": false, \"files\": [\"key\"] }"
        #expect(try issue(key, at: "/trustAnchors/files/0").contains("a private key"))
        let unknown = "\(Self.pins), \"trustAnchors\": { \"file\": [] }"
        #expect(try issue(unknown, at: "/trustAnchors/file").contains("did you mean \"files\"?"))
        let waived = "\(Self.pins), \"allowInvalidCertificates\": true, \"trustAnchors\": { \"system\": false }"
        #expect(try load(waived).configuration.trustAnchors?.count == 0)
    }

    @Test("domains with the same anchors share one store")
    func sharedAnchors() throws {
        let root = try folder.write(pki.root.certificate.pem, as: "root.pem")
        let library = TrustAnchorLibrary()
        let first = try library.anchors(system: false, files: [root])
        #expect(try library.anchors(system: false, files: [root]) === first)
        #expect(try library.anchors(system: false, files: [root, root]) !== first)
    }

    @Test("a client certificate needs its own key, without a password")
    func clientCertificate() throws {
        func body(_ certificate: String, _ key: String) -> String {
            "\(Self.pins), \"clientCertificate\": { \"certificate\": \"\(certificate)\", \"key\": \"\(key)\" }"
        }
        let other = try KeyPair(.p256)
        try folder.write(server.chainPEM, as: "pins/c.pem")
        try folder.write(server.privateKeyPEM, as: "pins/c.key")
        try folder.write(bytes: server.identity.key.privateKeyDER, as: "pins/c.der")
        try folder.write(other.privateKeyPEM, as: "pins/other.key")
        try folder.write(server.identity.key.privateKeyPEM(password: "secret"), as: "pins/locked.key")
        #expect(try load(body("c.pem", "c.key")).configuration.clientCertificate?.certificates.count == 2)
        #expect(try load(body("c.pem", "c.der")).configuration.clientCertificate != nil)
        let pointer = "/clientCertificate"
        #expect(try issue(body("c.pem", "other.key"), at: pointer).contains("do not belong together"))
        #expect(try issue(body("c.pem", "locked.key"), at: pointer).contains("protected by a password"))
        #expect(try issue(body("c.pem", "c.pem"), at: pointer).contains("no single private key"))
        #expect(try issue(body("c.key", "c.key"), at: pointer).contains("a private key where"))
        #expect(try issue(body("c.pem", "absent"), at: pointer + "/key").contains("No such file"))
        let half = "\(Self.pins), \"clientCertificate\": { \"certificate\": \"c.pem\" }"
        #expect(try issue(half, at: pointer).contains("\"key\" is missing"))
    }

    @Test(
        "a client certificate whose purposes exclude clients is a warning",
        arguments: [(["serverAuth"], true), (["clientAuth"], false), (["anyExtendedKeyUsage"], false), ([], false)]
    )
    func clientPurpose(usage: [String], isWarned: Bool) throws {
        var builder = CertificateBuilder.server(hosts: ["client"], validity: TestPKI.validity)
        builder.extendedKeyUsage = usage
        let identity = try builder.identity(issuer: pki.intermediate)
        try folder.write(identity.certificate.pem, as: "pins/c.pem")
        try folder.write(identity.key.privateKeyPEM, as: "pins/c.key")
        let text = """
            { "version": 1, "pinnedDomains": { "api.example.com": {
              \(Self.pins), "clientCertificate": { "certificate": "c.pem", "key": "c.key" } } } }
            """
        let path = try folder.write(text, as: "pins/p.json")
        let warnings = try PinFile.load(files: [path], at: Self.now).warnings.filter {
            $0.message.contains("clientAuth")
        }
        #expect(
            warnings.map(\.pointer)
                == (isWarned ? ["/pinnedDomains/api.example.com/clientCertificate/certificate"] : [])
        )
    }
}
