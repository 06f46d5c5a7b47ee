import Foundation
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@Suite("Revocation lists that pin files name")
struct RevocationFileTests {
    private let pki: TestPKI
    private let server: TestServer
    private let folder: TemporaryFolder
    private static let now: Int64 = 1_800_000_000
    private static let validity = (now - 1000)..<(now + 1000)
    private static let file = "pins/p.json"

    init() throws {
        pki = try TestPKI()
        server = try pki.server("api.example.com")
        folder = try TemporaryFolder()
    }

    private func body(_ files: String..., more: String = "") -> String {
        let list = files.map { "\"\($0)\"" }.joined(separator: ", ")
        return """
            { "version": 1, "pinnedDomains": { "api.example.com": {
            "pins": ["\(server.pin)", "\(PublicKeyPin.unrelated(2))"]\(more),
            "revocation": { "crlFiles": [\(list)], "crlScope": "chain" } } } }
            """
    }

    private func load(_ text: String) throws -> (policy: SecurityPolicy, warnings: [DocumentIssue]) {
        let loaded = try PinFile.load(path: try folder.write(text, as: Self.file), at: Self.now)
        let policy = try #require(loaded.domains.policy(host: Host("api.example.com"), port: 443))
        return (policy, loaded.warnings)
    }

    private func list(_ change: (inout RevocationListBuilder) -> Void = { _ in }) throws -> String {
        var builder = RevocationListBuilder(validity: Self.validity)
        change(&builder)
        return try builder.pem(issuer: pki.intermediate)
    }

    /// The one issue of a file, with its pointer and a remedy.
    private func issue(_ text: String, at pointer: String = "/revocation/crlFiles/0") throws -> String {
        do {
            _ = try load(text)
            Issue.record("it loaded")
            return ""
        } catch let issues as DocumentIssues {
            #expect(issues.issues.count == 1, "\(issues)")
            let issue = try #require(issues.issues.first)
            #expect(issue.pointer == "/pinnedDomains/api.example.com" + pointer)
            #expect(issue.file.hasSuffix(Self.file) && !issue.remedy.isEmpty && issue.line != nil)
            return issue.description
        }
    }

    /// The bytes inside a PEM block.
    private func der(_ pem: String) throws -> [UInt8] {
        let base64 = pem.split(separator: "\n").filter { !$0.hasPrefix("-----") }.joined()
        return try #require(Data(base64Encoded: base64)).map { $0 }
    }

    @Test("80 PEM and DER are told apart by content, and one PEM may hold several lists")
    func formats() throws {
        let root = try RevocationListBuilder(validity: Self.validity).pem(issuer: pki.root)
        try folder.write(list(), as: "pins/a.der")
        try folder.write(bytes: der(list()), as: "pins/a.pem")
        try folder.write(list() + "words between\n" + root, as: "pins/both.pem")
        for file in ["a.der", "a.pem"] {
            let loaded = try load(body(file))
            #expect(loaded.policy.configuration.revocationLists?.earliestNextUpdate == Self.now + 1000)
            #expect(loaded.policy.configuration.revocationScope == .chain)
            #expect(loaded.warnings.isEmpty)
            // The scope is the whole chain, and the root's list is missing.
            #expect(verdict(loaded.policy) == .certificateRevoked)
        }
        #expect(try verdict(load(body("both.pem")).policy) == nil)
        try folder.write(root, as: "pins/root.pem")
        #expect(try verdict(load(body("a.der", "root.pem")).policy) == nil)
    }

    private func verdict(_ policy: SecurityPolicy) -> TrustFailure? {
        policy.evaluate(
            chain: server.chain,
            host: try! Host("api.example.com"),
            anchors: pki.anchors,
            at: Self.now
        ).failure
    }

    @Test("80 what is no list, and what could never prove anything, is refused when it is read")
    func refused() throws {
        let good = try list()
        let files: [String: [UInt8]] = [
            "empty": [],
            "gibberish": Array("gibberish".utf8),
            "damaged": Array(good.replacing("\nMI", with: "\nM!", maxReplacements: 1).utf8),
            "half": try der(good).dropLast(20),
            "more": try der(good) + [0],
            "certificate.pem": Array(server.certificate.pem.utf8),
            "certificate.der": server.certificate.derBytes,
            "certificate too": Array((good + server.certificate.pem).utf8),
            "key": Array(server.privateKeyPEM.utf8),
            "endless": Array(try list { $0.nextUpdate = nil }.utf8),
            "backwards": Array(try list { $0.nextUpdate = Self.now - 2000 }.utf8),
            "delta": Array(try list { $0.criticalExtensions = [.delta(base: 1)] }.utf8),
            "critical": Array(try list { $0.criticalExtensions = [.unknown] }.utf8),
            "weak": Array(try list { $0.signatureDigest = "SHA1" }.utf8),
            "second": Array((good + (try list { $0.signatureDigest = "SHA1" })).utf8),
        ]
        for (name, bytes) in files { try folder.write(bytes: bytes, as: "pins/\(name)") }
        let expected = [
            "empty": "the file is empty", "gibberish": "not a revocation list in PEM or DER",
            "damaged": "a damaged PEM block", "half": "not a revocation list", "more": "not a revocation list",
            "certificate.pem": "a PEM block \"CERTIFICATE\"", "certificate.der": "a certificate where revocation lists",
            "certificate too": "something else than revocation lists", "key": "a PEM block \"PRIVATE KEY\"",
            "endless": "until when it holds", "backwards": "until when it holds", "delta": "is a delta list",
            "critical": "a critical extension", "weak": "SHA1", "second": "too weak", "absent": "No such file",
        ]
        #expect(expected.count == files.count + 1)
        for (file, message) in expected {
            let text = try issue(body(file))
            #expect(text.contains(message), "\(file): \(text)")
        }
        // The correct file for all of these.
        try folder.write(good, as: "pins/good")
        #expect(try load(body("good")).warnings.isEmpty)
        #expect(try issue(body("good", "weak"), at: "/revocation/crlFiles/1").contains("too weak"))
    }

    @Test("80 a list that is not in force loads with a warning, and refuses until it is replaced")
    func notInForce() throws {
        try folder.write(list { $0.nextUpdate = Self.now }, as: "pins/old")
        try folder.write(list { $0.thisUpdate = Self.now + 1 }, as: "pins/early")
        for (file, message) in [("old", "is out of date"), ("early", "is not valid yet")] {
            let loaded = try load(body(file).replacing("\"chain\"", with: "\"leaf\""))
            let warning = try #require(loaded.warnings.first)
            #expect(loaded.warnings.count == 1 && warning.message.contains(message), "\(warning)")
            #expect(warning.pointer.hasSuffix("/revocation/crlFiles/0") && !warning.remedy.isEmpty)
            #expect(verdict(loaded.policy) == .certificateRevoked)
        }
    }

    @Test("80 lists cannot be used where no chain is validated")
    func waived() throws {
        try folder.write(list(), as: "pins/good")
        let waived = body("good", more: ", \"allowInvalidCertificates\": true")
        #expect(try issue(waived, at: "/revocation").contains("need a valid chain"))
    }
}
