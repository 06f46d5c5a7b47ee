// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import Foundation
import Glibc
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

    @Test("80 PEM and DER are recognised by content; one PEM may hold several lists")
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

    @Test("80 unreadable lists, and those without use, are refused when read")
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
            "no beginning": try Self.spoiled(der(good), time: 0), "no end": try Self.spoiled(der(good), time: 1),
            "too long": [UInt8](repeating: 0x30, count: 16 << 20 + 1),
        ]
        for (name, bytes) in files { try folder.write(bytes: bytes, as: "pins/\(name)") }
        let expected = [
            "empty": "the file is empty", "gibberish": "not a revocation list in PEM or DER",
            "damaged": "a damaged PEM block", "half": "not a revocation list", "more": "not a revocation list",
            "certificate.pem": "a PEM block \"CERTIFICATE\"", "certificate.der": "a certificate where revocation lists",
            "certificate too": "something else than revocation lists", "key": "a PEM block \"PRIVATE KEY\"",
            "endless": "until when it holds", "backwards": "until when it holds", "delta": "is a delta list",
            "critical": "a critical extension", "weak": "SHA1", "second": "too weak",
            "no beginning": "until when it holds",
            "no end": "until when it holds", "too long": "longer than 16384 KB", "absent": "No such file",
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

    /// The list with a text that is no time in the place of `thisUpdate` (0) or `nextUpdate` (1).
    private static func spoiled(_ der: [UInt8], time: Int) throws -> [UInt8] {
        var der = der
        let starts = der.indices.filter { der[$0...].starts(with: [0x17, 13]) && der[$0 + 14] == UInt8(ascii: "Z") }
        try #require(starts.count > time)
        der.replaceSubrange(starts[time] + 2..<starts[time] + 15, with: Array("XXXXXXXXXXXXX".utf8))
        return der
    }

    @Test("80 a list of hundreds of thousands of entries is verified once")
    func large() throws {
        let revoked = try pki.server("revoked.example.com")
        let contents = try Self.enlarged(
            der(
                RevocationListBuilder(validity: Self.validity, revoked: [revoked.certificate]).pem(
                    issuer: pki.intermediate
                )
            ),
            by: 300_000,
            issuer: pki.intermediate
        )
        #expect(contents.count > 8 << 20)
        try folder.write(bytes: contents, as: "pins/large")
        let policy = try load(body("large").replacing("\"chain\"", with: "\"leaf\"")).policy
        var costs: [UInt64] = []
        for _ in 0..<2 {
            let before = Self.processorTime
            #expect(verdict(policy) == nil)
            costs.append(Self.processorTime - before)
        }
        // The signature over all of it is verified in the first alone; sorting would take several times as long as that.
        #expect(costs[0] < 200_000_000 && 4 * costs[1] < costs[0], "\(costs)")
        print("large list: evaluations took", costs.map { $0 / 1_000_000 }, "ms")
    }

    /// Of this thread, in nanoseconds.
    private static var processorTime: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// The list in DER with further entries, signed anew.
    private static func enlarged(_ der: [UInt8], by count: Int, issuer: Identity) throws -> [UInt8] {
        let list = der.withUnsafeBufferPointer { bytes in
            var place = bytes.baseAddress
            return d2i_X509_CRL(nil, &place, bytes.count)
        }
        let key = issuer.key.privateKeyDER.withUnsafeBufferPointer { bytes in
            var place = bytes.baseAddress
            return d2i_AutoPrivateKey(nil, &place, bytes.count)
        }
        defer {
            X509_CRL_free(list)
            EVP_PKEY_free(key)
        }
        let date = ASN1_TIME_set(nil, Int(now))
        let serial = ASN1_INTEGER_new()
        defer {
            ASN1_STRING_free(date)
            ASN1_INTEGER_free(serial)
        }
        for number in 0..<count {
            let entry = X509_REVOKED_new()
            // In no order, as some issuers send them.
            ASN1_INTEGER_set_uint64(serial, UInt64(number) &* 0x9E37_79B9_7F4A_7C15 | 1 << 63)
            X509_REVOKED_set_serialNumber(entry, serial)
            X509_REVOKED_set_revocationDate(entry, date)
            try #require(X509_CRL_add0_revoked(list, entry) == 1)
        }
        try #require(X509_CRL_sign(list, key, EVP_sha256()) > 0)
        var bytes = [UInt8](repeating: 0, count: Int(i2d_X509_CRL(list, nil)))
        bytes.withUnsafeMutableBufferPointer { buffer in
            var place = buffer.baseAddress
            _ = i2d_X509_CRL(list, &place)
        }
        return bytes
    }

    @Test("80 a list that is not in force is a warning, then refuses servers")
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
