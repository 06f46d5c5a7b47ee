// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("Every valid path of a server")
struct PathTests {
    /// A chain as Let's Encrypt serves it since May 2026: the server, YR1, and the root YR as X1 has signed it.
    private struct GenerationY {
        var web = CertificateWeb()
        let server: Certificate
        let yr1: Certificate
        let yrByX1: Certificate
        let yr: Certificate
        let x1: Certificate

        init() throws {
            x1 = try web.authority("X1")
            yr = try web.authority("Root YR")
            yrByX1 = try web.authority("Root YR", by: "X1")
            yr1 = try web.authority("YR1", by: "Root YR")
            server = try web.server(by: "YR1")
        }
    }

    @Test(
        "a chain of generation Y matches the pins of each of its paths",
        arguments: [false, true]
    )
    func generationY(besideRealStore: Bool) throws {
        let y = try GenerationY()
        let bundle = "/etc/ssl/certs/ca-certificates.crt"
        let real = besideRealStore ? try Certificate.certificates(file: bundle) : []
        #expect(!besideRealStore || real.count > 100)
        for (name, store) in [
            ("X1", [y.x1]), ("X1 and YR", [y.x1, y.yr]), ("X1 and YR1", [y.x1, y.yr1]),
            ("all", [y.yr, y.yr1, y.x1]), ("all, and the cross-signed one", [y.yrByX1, y.yr1, y.yr, y.x1]),
        ] {
            for order in [y.yr1, y.yrByX1].orders + [y.yr1, y.yrByX1, y.x1].orders + [y.yr1, y.yrByX1, y.yr].orders {
                let plain = try CertificateWeb.evaluate([y.server] + order, anchors: real + store)
                #expect(plain.verdict == .notPinned, "\(name): \(plain)")
                for pinned in ["X1", "Root YR", "YR1", "server"] {
                    let evaluation = try CertificateWeb.evaluate(
                        [y.server] + order,
                        anchors: real + store,
                        pins: [y.web.pin(pinned)]
                    )
                    #expect(evaluation.verdict == .pass, "\(name), \(pinned): \(evaluation)")
                    #expect(evaluation.matchedPin == y.web.pin(pinned))
                    let isInFirst = plain.chain.contains { $0.publicKeyPin == y.web.pin(pinned) }
                    #expect(evaluation.isOtherPath == (plain.isOtherPath || !isInFirst), "\(name), \(pinned)")
                }
            }
        }
    }

    @Test("a certificate outside every valid path matches no pin, and the reason helps")
    func changedStore() throws {
        let y = try GenerationY()
        let sent = [y.server, y.yr1, y.yrByX1]
        // X1 has left the store, and the server still sends a path to it.
        let lost = try CertificateWeb.evaluate(sent, anchors: [y.yr], pins: [y.web.pin("X1")])
        #expect(lost.failure == .pinMismatch)
        #expect(lost.reason.contains("\"CN = X1\"") && lost.remedy.contains("trust store"), "\(lost)")
        // The server has another CA now; the pinned root is in the store.
        var web = y.web
        let other = try web.authority("other")
        let moved = [try web.server(by: "other")]
        let changed = try CertificateWeb.evaluate(moved, anchors: [y.x1, other], pins: [web.pin("X1")])
        #expect(changed.failure == .pinMismatch)
        #expect(changed.reason.contains("none of the server's paths leads to it"), "\(changed)")
        #expect(changed.remedy.contains("operator"))
        // A certificate with the pinned key has signed, and the root above it is not trusted; the other CA has signed, too.
        let crossed = try web.authority("YR1", by: "other")
        let untrusted = try CertificateWeb.evaluate(
            [y.server, crossed, y.yr1, y.yrByX1],
            anchors: [other],
            pins: [web.pin("Root YR")]
        )
        #expect(untrusted.failure == .pinMismatch)
        #expect(untrusted.reason.contains("no valid path leads through it"), "\(untrusted)")
    }

    // MARK: Properties, each with a twin that passes

    @Test("neither order nor superfluous cross-signed certificates matter")
    func crossSigned() throws {
        var web = CertificateWeb()
        let (a, b) = (try web.authority("A"), try web.authority("B"))
        let crossed = [try web.authority("issuing", by: "A"), try web.authority("issuing", by: "B")]
        let server = try web.server(by: "issuing")
        let extra = try web.authority("extra", by: "A")
        for anchors in [[a], [b], [a, b], [b, a]] {
            for order in (crossed + [extra]).orders {
                let evaluation = try CertificateWeb.evaluate([server] + order, anchors: anchors)
                #expect(evaluation.verdict == .notPinned, "\(evaluation)")
            }
        }
        #expect(try !CertificateWeb.evaluate([server] + crossed, anchors: [extra]).isAccepted)
    }

    @Test("an expired twin is skipped, as sent and among the anchors")
    func expiredTwin() throws {
        var web = CertificateWeb()
        let root = try web.authority("root")
        let oldRoot = try web.authority("root") { $0.notAfter = CertificateWeb.now - 1 }
        let issuing = try web.authority("issuing", by: "root")
        let old = try web.authority("issuing", by: "root") { $0.notAfter = CertificateWeb.now - 1 }
        let server = try web.server(by: "issuing")
        for order in [issuing, old].orders {
            for anchors in [root, oldRoot].orders {
                #expect(try CertificateWeb.evaluate([server] + order, anchors: anchors).verdict == .notPinned)
            }
        }
        let alone = try CertificateWeb.evaluate([server, old], anchors: [root])
        #expect(alone.failure == .certificateExpired && alone.reason.contains("expired on 2026-05-15"), "\(alone)")
    }

    @Test(
        "a renewed CA key is found by name, with and without key identifiers",
        arguments: [true, false]
    )
    func renewedKey(hasIdentifiers: Bool) throws {
        var web = CertificateWeb()
        func plain(_ builder: inout CertificateBuilder) { builder.writesKeyIdentifiers = hasIdentifiers }
        let roots = [
            try web.authority("root", key: "first", plain), try web.authority("root", key: "second", plain),
            try web.authority("root", key: "third", plain),
        ]
        let issuing = try web.authority("issuing", by: "root", issuerKey: "second", plain)
        let server = try web.server(by: "issuing", plain)
        for order in roots.orders {
            #expect(try CertificateWeb.evaluate([server, issuing], anchors: order).verdict == .notPinned)
            #expect(try CertificateWeb.evaluate([server, issuing] + order, anchors: [order[0], roots[1]]).isAccepted)
        }
        let refused = try CertificateWeb.evaluate([server, issuing], anchors: [roots[0], roots[2]])
        #expect(refused.failure == .certificateUntrusted)
        // A new key that the old one has signed under the same name (RFC 4210, section 4.4). Without key identifiers it looks
        // as if it had signed itself.
        guard hasIdentifiers else { return }
        let rolled = try web.authority("root", by: "root", key: "second", issuerKey: "first", plain)
        for order in [issuing, rolled].orders {
            let evaluation = try CertificateWeb.evaluate(
                [server] + order,
                anchors: [roots[0]],
                pins: [web.pin("first")]
            )
            #expect(evaluation.verdict == .pass, "\(evaluation)")
        }
    }

    @Test("CAs that sign each other do not hang the search")
    func loop() throws {
        var web = CertificateWeb()
        let root = try web.authority("root")
        let circle = [try web.authority("A", by: "B"), try web.authority("B", by: "A")]
        let out = try web.authority("B", by: "root")
        let server = try web.server(by: "A")
        for order in (circle + [out]).orders {
            #expect(try CertificateWeb.evaluate([server] + order, anchors: [root]).verdict == .notPinned)
        }
        #expect(try CertificateWeb.evaluate([server] + circle, anchors: [root]).failure == .certificateUntrusted)
    }

    /// Faults of a CA certificate: where it has a twin without the fault, the path goes through the twin.
    private static let faults: [(String, @Sendable (inout CertificateBuilder) -> Void)] = [
        ("name constraints", { $0.permittedNames = ["other.example"] }),
        ("an excluded name", { $0.excludedNames = ["example.com"] }),
        ("path length", { $0.pathLength = 0 }),
        ("purpose", { $0.extendedKeyUsage = ["clientAuth"] }),
        ("key usage", { $0.keyUsage = ["digitalSignature"] }),
        ("no CA", { $0.isCA = false }),
        ("expired", { $0.notAfter = CertificateWeb.now - 1 }),
        ("weak digest", { $0.signatureDigest = "SHA1" }),
    ]

    @Test(
        "a faulty CA does not hide its good twin, at any depth",
        arguments: faults.map(\.0),
        [1, 2, 3]
    )
    func twin(fault: String, depth: Int) throws {
        let change = try #require(Self.faults.first { $0.0 == fault }?.1)
        // One CA below another, so that a path length is exceeded at the depth in question.
        var web = CertificateWeb()
        let names = ["CA 0", "CA 1", "CA 2", "CA 3", "root"]
        let root = try web.authority("root")
        var good: [Certificate] = []
        for place in 0..<4 { good.append(try web.authority(names[place], by: names[place + 1])) }
        let bad = try web.authority(names[depth], by: names[depth + 1], change)
        let server = try web.server(by: "CA 0")
        for chain in [[bad] + good, good + [bad], [good[3], bad] + good.prefix(3)] {
            let evaluation = try CertificateWeb.evaluate([server] + chain, anchors: [root], pins: [web.pin("root")])
            #expect(evaluation.verdict == .pass, "\(fault): \(evaluation)")
        }
        var broken = good
        broken[depth] = bad
        #expect(try !CertificateWeb.evaluate([server] + broken, anchors: [root]).isAccepted, "\(fault)")
    }

    @Test("a dead end is left again, at any depth", arguments: [1, 2, 3])
    func deadEnd(depth: Int) throws {
        var web = CertificateWeb()
        let names = ["CA 0", "CA 1", "CA 2", "CA 3", "root"]
        let root = try web.authority("root")
        var good: [Certificate] = []
        for place in 0..<4 { good.append(try web.authority(names[place], by: names[place + 1])) }
        let dead = try web.authority(names[depth], by: "nobody")
        let server = try web.server(by: "CA 0")
        for chain in [[dead] + good, good + [dead]] {
            #expect(try CertificateWeb.evaluate([server] + chain, anchors: [root]).verdict == .notPinned)
        }
        var broken = good
        broken[depth] = dead
        let refused = try CertificateWeb.evaluate([server] + broken, anchors: [root])
        #expect(refused.reason.contains("\"CN = nobody\", is missing"), "\(refused)")
    }

    // MARK: Intermediates that the server leaves out

    @Test("intermediates complete a server's path, and are no anchors")
    func intermediates() throws {
        var web = CertificateWeb()
        let root = try web.authority("root")
        let upper = try web.authority("upper", by: "root")
        let lower = try web.authority("lower", by: "upper")
        let server = try web.server(by: "lower")
        let refused = try CertificateWeb.evaluate([server], anchors: [root])
        #expect(refused.failure == .certificateUntrusted)
        #expect(refused.reason.contains("\"CN = lower\", is missing") && refused.remedy.contains("intermediates"))
        for helpers in [[upper, lower], [lower, upper]] {
            let evaluation = try CertificateWeb.evaluate(
                [server],
                anchors: [root],
                intermediates: helpers,
                pins: [web.pin("root")]
            )
            #expect(evaluation.verdict == .pass && evaluation.isOtherPath, "\(evaluation)")
            #expect(
                evaluation.chain.map(\.subject) == ["api.example.com", "lower", "upper", "root"].map { "CN = \($0)" }
            )
        }
        #expect(try !CertificateWeb.evaluate([server], anchors: [], intermediates: [lower, upper, root]).isAccepted)
        #expect(try !CertificateWeb.evaluate([server], anchors: [root], intermediates: [lower]).isAccepted)
    }

    @Test("a domain's own intermediates help like those of the configuration")
    func intermediatesOfDomain() throws {
        var web = CertificateWeb()
        let root = try web.authority("root")
        let issuing = try web.authority("issuing", by: "root")
        let server = try web.server(by: "issuing")
        var scenario = Scenario(TestServer(identity: try TestPKI.shared.server("x").identity, chain: [server]), .shared)
        scenario.anchors = TrustAnchors(certificates: [root])
        try expect(
            scenario,
            .certificateUntrusted,
            mended: scenario.with { $0.configuration.intermediates = [issuing] },
            .notPinned
        )
    }

    @Test("revocation lists cover another path like the first")
    func revocation() throws {
        var web = CertificateWeb()
        let (root, other) = (try web.authority("root"), try web.authority("other"))
        let crossed = [try web.authority("issuing", by: "root"), try web.authority("issuing", by: "other")]
        let server = try web.server(by: "issuing")
        func lists(_ revoked: [Certificate], _ names: [String]) throws -> RevocationLists {
            let validity = CertificateWeb.now - 1000..<CertificateWeb.now + 1000
            return try RevocationLists(
                contents: names.map { name in
                    let builder = RevocationListBuilder(validity: validity, revoked: name == "other" ? revoked : [])
                    return Array(try builder.pem(issuer: try web.signer(name)).utf8)
                }
            )
        }
        func evaluate(_ revoked: [Certificate], _ names: [String]) throws -> [TrustEvaluation] {
            try ["root", "other"].map {
                try CertificateWeb.evaluate(
                    [server] + crossed,
                    anchors: [root, other],
                    pins: [web.pin($0)],
                    lists: try lists(revoked, names)
                )
            }
        }
        #expect(try evaluate([], ["issuing", "root", "other"]).allSatisfy { $0.verdict == .pass })
        let revoked = try evaluate([crossed[1]], ["issuing", "root", "other"])
        #expect(revoked[0].verdict == .pass && revoked[1].failure == .pinMismatch, "\(revoked[1])")
        #expect(try evaluate([], ["issuing", "root"])[1].verdict == .fail)
    }

    // MARK: Reasons

    @Test("the reason is that of the most promising path, naming the certificate")
    func reasons() throws {
        var web = CertificateWeb()
        let root = try web.authority("root")
        let constrained = try web.authority("issuing", by: "root") { $0.permittedNames = ["other.example"] }
        let dead = try web.authority("issuing", by: "nobody")
        let server = try web.server(by: "issuing")
        for chain in [constrained, dead].orders {
            let refused = try CertificateWeb.evaluate([server] + chain, anchors: [root])
            #expect(refused.reason.contains("name constraints"), "\(refused)")
        }
        let untrusted = try CertificateWeb.evaluate([server, dead, try web.authority("nobody")], anchors: [root])
        #expect(untrusted.reason == "\"CN = nobody\" is self-signed, and no trust anchor", "\(untrusted)")
        let wrongHost = try web.server(by: "issuing") { $0.names = [.dns("b.example.com")] }
        let issuing = try web.authority("issuing", by: "root")
        let refused = try CertificateWeb.evaluate([wrongHost, dead, issuing], anchors: [root])
        #expect(refused.failure == .certificateHostMismatch)
        let garbled = try web.server(by: "issuing") { $0.rawNameConstraints = [0x30, 0x05, 1] }
        let unreadable = try CertificateWeb.evaluate([garbled, issuing], anchors: [root])
        #expect(unreadable.reason.contains("has an extension that cannot be read"), "\(unreadable)")
        #expect(!unreadable.remedy.contains("whole chain"))
    }
}
