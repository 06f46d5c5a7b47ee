// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Revocation lists that are fetched")
struct FetchedListTests {
    private static let now: Int64 = 1_800_000_000
    private static let validity = (now - 1000)..<(now + 1000)
    private static let url = "http://lists.example/1.crl"
    private let pki: TestPKI
    private let server: TestServer
    private let store = RevocationListStore()

    init() throws {
        pki = try TestPKI()
        server = try Self.server(pki)
    }

    private static func server(_ pki: TestPKI, at urls: [String] = [url], isCA: Bool = false) throws -> TestServer {
        var builder = CertificateBuilder.server(hosts: ["api.example.com"], validity: TestPKI.validity)
        builder.distributionPoints = urls
        builder.isCA = isCA
        return try pki.server(builder)
    }

    private func evaluate(
        _ server: TestServer? = nil,
        without: Bool = false,
        at time: Int64 = now,
        _ change: (inout SecurityPolicy.Configuration) throws -> Void = { _ in }
    ) throws -> TrustEvaluation {
        let server = server ?? self.server
        var configuration = SecurityPolicy.Configuration()
        configuration.pinningMode = .publicKey
        configuration.pins = [Pin(self.server.pin), Pin(.unrelated(1))]
        configuration.fetchesRevocationLists = true
        try change(&configuration)
        return try SecurityPolicy(configuration).evaluate(
            chain: server.chain,
            host: Host("api.example.com"),
            anchors: pki.anchors,
            lists: without ? nil : store,
            at: time
        )
    }

    private func list(
        _ revoked: [Certificate] = [],
        by issuer: Identity? = nil,
        _ change: (inout RevocationListBuilder) -> Void = { _ in }
    ) throws -> [UInt8] {
        var builder = RevocationListBuilder(validity: Self.validity, revoked: revoked)
        change(&builder)
        return try builder.der(issuer: issuer ?? pki.intermediate)
    }

    private func need(_ server: TestServer? = nil) throws -> RevocationListNeed {
        let server = server ?? self.server
        return try #require(RevocationListNeed(server.certificate, issuer: pki.intermediate.certificate))
    }

    private func hold(_ bytes: [UInt8], at now: Int64 = now) throws {
        let need = try need()
        let held = store.list(for: need.key, usedAt: nil)
        #expect(store.hold(try need.read(bytes, replacing: held, at: now), for: need.key, at: now).isEmpty)
    }

    // MARK: What is asked for

    @Test("only an otherwise accepted server has its list requested")
    func missing() throws {
        let missing = try evaluate()
        #expect(missing.failure == .certificateRevoked && missing.verdict == .fail)
        #expect(missing.missingLists.map(\.urls) == [[Self.url]])
        #expect(missing.reason.contains(Self.url) && missing.remedy.contains("crlFiles"), "\(missing)")

        let otherPKI = try TestPKI()
        let refused: [(String, TrustEvaluation, TrustFailure)] = [
            ("an unknown CA", try evaluate(Self.server(otherPKI)), .certificateUntrusted),
            ("a key that is not pinned", try evaluate(Self.server(pki)), .pinMismatch),
            ("an expired certificate", try evaluate(at: TestPKI.validity.upperBound + 1), .certificateExpired),
            (
                "a forbidden key",
                try evaluate { $0.forbiddenPins = [Pin(pki.intermediate.key.pin)] }, .pinForbidden
            ),
            ("an expired pin set", try evaluate { $0.expiration = CalendarDate("2020-01-31") }, .pinSetExpired),
        ]
        for (name, evaluation, failure) in refused {
            #expect(evaluation.failure == failure && evaluation.missingLists.isEmpty, "\(name): \(evaluation)")
        }
    }

    @Test("where lists are not fetched, servers are refused with that reason")
    func cannotFetch() throws {
        let without = try evaluate(without: true)
        #expect(without.failure == .certificateRevoked && without.missingLists.isEmpty)
        #expect(without.reason.contains("nothing here fetches any"), "\(without)")
        let long = "http://lists.example/" + String(repeating: "x", count: 2048)
        for urls in [[], ["https://lists.example/1.crl"], ["ldap://lists.example/cn=x"], [long]] {
            let other = try Self.server(pki, at: urls)
            let evaluation = try evaluate(other) { $0.pins[0] = Pin(other.pin) }
            #expect(evaluation.failure == .certificateRevoked && evaluation.missingLists.isEmpty)
            #expect(evaluation.reason.contains("names no distribution point"), "\(evaluation)")
        }
        let many = (0..<6).map { "HTTP://lists.example/\($0)" }
        let other = try Self.server(pki, at: ["ldap://lists.example/x"] + many)
        #expect(other.certificate.revocationListURLs == Array(many.prefix(4)))
    }

    @Test("scope chain requests each CA's list, the anchor's excepted")
    func chain() throws {
        let root = pki.root
        var builder = CertificateBuilder.authority("second", validity: TestPKI.validity)
        builder.distributionPoints = ["http://lists.example/root.crl"]
        let second = try builder.identity(issuer: root)
        var leaf = CertificateBuilder.server(hosts: ["api.example.com"], validity: TestPKI.validity)
        leaf.distributionPoints = [Self.url]
        let identity = try leaf.identity(issuer: second)
        let server = TestServer(identity: identity, chain: [identity.certificate, second.certificate])
        let evaluation = try evaluate(server) {
            $0.pins[0] = Pin(server.pin)
            $0.revocationScope = .chain
        }
        #expect(evaluation.missingLists.map(\.urls[0]) == [Self.url, "http://lists.example/root.crl"])
        for need in evaluation.missingLists {
            let issuer = need.certificate.isCA ? root : second
            _ = store.hold(
                try need.read(try list(by: issuer), replacing: nil, at: Self.now),
                for: need.key,
                at: Self.now
            )
        }
        let passed = try evaluate(server) {
            $0.pins[0] = Pin(server.pin)
            $0.revocationScope = .chain
        }
        #expect(passed.verdict == .pass && passed.goodUntil == Self.now + 1000, "\(passed)")
    }

    @Test("a list from a file and a fetched one count by age")
    func beside() throws {
        let file = try RevocationLists(contents: [list()])
        #expect(try evaluate { $0.revocationLists = file }.verdict == .pass)
        try hold(list([server.certificate]) { $0.thisUpdate += 1 })
        #expect(try evaluate { $0.revocationLists = file }.failure == .certificateRevoked)
        let newer = try RevocationLists(contents: [list { $0.thisUpdate += 2 }])
        #expect(try evaluate { $0.revocationLists = newer }.verdict == .pass)
    }

    // MARK: What is accepted

    @Test("a list must be whole, in force, about the certificate, and signed")
    func accepted() throws {
        let need = try need()
        let key = try KeyPair(.p256)
        let namesake = Identity(
            certificate: try CertificateBuilder.authority("pinproxy test intermediate", validity: TestPKI.validity)
                .certificate(for: key, issuer: pki.root),
            key: key
        )
        let other = "fullname:URI:http://lists.example/2.crl"
        let refused: [(String, [UInt8])] = [
            ("not signed with the key", try list(by: namesake)),
            ("of another issuer", try list(by: pki.root)),
            ("out of date", try list { $0.nextUpdate = Self.now }),
            ("not valid yet", try list { $0.thisUpdate = Self.now + 1 }),
            ("delta list", try list { $0.criticalExtensions = [.delta(base: 1)] }),
            ("critical extension", try list { $0.criticalExtensions = [.unknown] }),
            ("too weak", try list { $0.signatureDigest = "SHA1" }),
            ("until when it holds", try list { $0.nextUpdate = nil }),
            ("other certificates", try list { $0.issuingDistributionPoint = other }),
            ("other certificates", try list { $0.issuingDistributionPoint = "onlyCA:TRUE" }),
            ("other certificates", try list { $0.issuingDistributionPoint = "onlyAA:TRUE" }),
            ("other certificates", try list { $0.issuingDistributionPoint = "indirectCRL:TRUE" }),
            ("other certificates", try list { $0.issuingDistributionPoint = "onlysomereasons:keyCompromise" }),
            ("not a revocation list", Array("<html>".utf8)),
            ("empty", []),
            ("not a revocation list", try list().dropLast()),
            (
                "2 lists",
                Array(
                    try
                        (RevocationListBuilder(validity: Self.validity).pem(issuer: pki.intermediate)
                        + RevocationListBuilder(validity: Self.validity).pem(issuer: pki.intermediate)).utf8
                )
            ),
        ]
        for (reason, bytes) in refused {
            let fault = #expect(throws: CertificateFault.self) { try need.read(bytes, replacing: nil, at: Self.now) }
            #expect(fault?.message.contains(reason) == true, "\(reason): \(fault?.message ?? "")")
        }
        let shard = "fullname:URI:\(Self.url)"
        for point in [nil, shard, "onlyuser:TRUE", "onlyuser:TRUE,\(shard)"] {
            let bytes = try list { $0.issuingDistributionPoint = point }
            #expect(try need.read(bytes, replacing: nil, at: Self.now).derBytes == bytes)
        }
    }

    @Test("the CA whose key usage has no cRLSign signs no lists")
    func keyUsage() throws {
        var builder = CertificateBuilder.authority("signs no lists", validity: TestPKI.validity)
        builder.keyUsage = ["keyCertSign"]
        let issuer = try builder.identity(issuer: pki.root)
        var leaf = CertificateBuilder.server(hosts: ["api.example.com"], validity: TestPKI.validity)
        leaf.distributionPoints = [Self.url]
        let server = try leaf.identity(issuer: issuer)
        let need = try #require(RevocationListNeed(server.certificate, issuer: issuer.certificate))
        #expect(throws: CertificateFault.self) { try need.read(list(by: issuer), replacing: nil, at: Self.now) }
    }

    @Test("an older list does not replace a newer one, by date or number")
    func older() throws {
        let need = try need()
        let held = try need.read(list { $0.number = 5 }, replacing: nil, at: Self.now)
        func replaces(_ change: (inout RevocationListBuilder) -> Void) throws -> Bool {
            let bytes = try list {
                $0.number = 5; change(&$0)
            }
            return (try? need.read(bytes, replacing: held, at: Self.now)) != nil
        }
        #expect(try !replaces { $0.thisUpdate -= 1 })
        #expect(try !replaces { $0.number = 4 })
        #expect(try replaces { $0.number = 6 })
        #expect(try replaces { $0.thisUpdate += 1 })
        #expect(try replaces { $0.number = nil })
        // The same bytes are the same list.
        #expect(try need.read(held.derBytes, replacing: held, at: Self.now) === held)
    }

    // MARK: What is held

    @Test("a held list decides until its end")
    func held() throws {
        try hold(list())
        let passed = try evaluate()
        #expect(passed.verdict == .pass && passed.goodUntil == Self.now + 1000)
        let late = try evaluate(at: Self.now + 1000)
        #expect(late.failure == .certificateRevoked && late.missingLists.count == 1)
        try hold(list([server.certificate]))
        let revoked = try evaluate()
        #expect(revoked.failure == .certificateRevoked && revoked.missingLists.isEmpty)
        #expect(revoked.reason.contains("revoked"), "\(revoked)")
    }

    @Test("a verdict ends when a list revokes its certificate")
    func laterRevoked() throws {
        let other = try Self.server(pki)
        try hold(list())
        let verdict = try evaluate()
        #expect(verdict.isStillGood(at: Self.now))
        try hold(list([other.certificate]) { $0.thisUpdate += 1 })
        #expect(verdict.isStillGood(at: Self.now) && verdict.lapse(at: Self.now) == nil)
        try hold(list([other.certificate, server.certificate]) { $0.thisUpdate += 2 })
        #expect(!verdict.isStillGood(at: Self.now) && verdict.lapse(at: Self.now) == .certificateRevoked)
        #expect(!verdict.isStillGood(at: Self.now))
    }

    @Test("memory is bounded in lists and bytes: the least recently used go")
    func bounds() throws {
        let needs = try (0..<4).map { try need(Self.server(pki, at: ["http://lists.example/\($0)"])) }
        let lists = try needs.map { try $0.read(list(), replacing: nil, at: Self.now) }
        var limits = RevocationListStore.Limits()
        limits.lists = 2
        let few = RevocationListStore(limits: limits)
        #expect(few.hold(lists[0], for: needs[0].key, at: 1).isEmpty)
        #expect(few.hold(lists[1], for: needs[1].key, at: 2).isEmpty)
        #expect(few.list(for: needs[0].key, usedAt: 3) != nil)
        #expect(few.hold(lists[2], for: needs[2].key, at: 4) == [needs[1].key])
        limits.lists = 10
        // Signatures differ by a few bytes.
        limits.bytes = lists.map(\.byteCount).reduce(0, max) * 2
        let small = RevocationListStore(limits: limits)
        for index in 0..<2 { #expect(small.hold(lists[index], for: needs[index].key, at: Int64(index)).isEmpty) }
        #expect(small.hold(lists[2], for: needs[2].key, at: 3) == [needs[0].key])
        #expect(small.figures(at: Self.now).current == 2 && small.figures(at: Self.now + 1000).expired == 2)
        #expect(small.dropUnused(since: 2) == [needs[1].key] && small.figures(at: Self.now).current == 1)
    }

    @Test("the key distinguishes issuers and URLs, not certificates of one shard")
    func keys() throws {
        let one = try need(), other = try need(Self.server(pki))
        #expect(one.key == other.key && one.key.hexadecimal.count == 64)
        #expect(try one.key != need(Self.server(pki, at: ["http://lists.example/2"])).key)
        let stranger = try TestPKI("other").intermediate.certificate
        #expect(one.key != RevocationListNeed(server.certificate, issuer: stranger)?.key)
    }
}
