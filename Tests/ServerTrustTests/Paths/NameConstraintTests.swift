// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

/// OpenSSL checks the names of a certificate against the name constraints of its CAs, and a wildcard is such a name:
/// `*.h.test` is not in the excluded subtree `x.h.test`, but matches the host `x.h.test` (Go's CVE-2025-61727).
@Suite("Name constraints and the host")
struct NameConstraintTests {
    private let root: Identity

    init() throws {
        root = try CertificateBuilder.authority("root", validity: TestPKI.validity).identity()
    }

    /// A server below an intermediate with these constraints, which is pinned.
    private func scenario(
        _ names: [String],
        host: String,
        constrained: (inout CertificateBuilder) -> Void
    ) throws -> Scenario {
        var builder = CertificateBuilder.authority("constrained", validity: TestPKI.validity)
        constrained(&builder)
        let intermediate = try builder.identity(issuer: root)
        let leaf = try CertificateBuilder.server(hosts: names, validity: TestPKI.validity).identity(
            issuer: intermediate
        )
        let pki = try TestPKI("unrelated")
        var scenario = Scenario(
            TestServer(identity: leaf, chain: [leaf.certificate, intermediate.certificate]),
            pki
        ).pinning(intermediate.key.pin)
        scenario.anchors = TrustAnchors(certificates: [root.certificate])
        scenario.host = host
        return scenario
    }

    @Test("22 a wildcard does not reach a host that a CA excludes")
    func wildcard() throws {
        let excluded = try scenario(["*.h.test"], host: "x.h.test") { $0.excludedNames = ["x.h.test"] }
        try expect(excluded, .certificateUntrusted, mended: excluded.with { $0.host = "y.h.test" })
        let report = try excluded.evaluation()
        #expect(report.reason.contains("name constraints") && report.reason.contains("x.h.test"), "\(report)")
        #expect(report.reason.contains("CN = constrained"), "\(report)")
    }

    @Test("22 the host is checked in every mode that checks it")
    func modes() throws {
        let base = try scenario(["*.h.test"], host: "x.h.test") { $0.excludedNames = ["x.h.test"] }
        let pinned = base.configuration.pins
        let intermediate = base.chain[1]
        var cases: [(String, Scenario)] = [("publicKey", base)]
        cases.append(("none", base.with { $0.configuration = .init() }))
        cases.append(
            (
                "unpinned after expiration",
                base.with {
                    $0.configuration.expiration = CalendarDate("2026-05-14")
                    $0.configuration.onExpiration = .unpinned
                }
            )
        )
        cases.append(("only reported", base.with { $0.configuration.enforcePinning = false }))
        for allowsInvalid in [false, true] {
            cases.append(
                (
                    "certificate \(allowsInvalid)",
                    base.with {
                        $0.configuration = .init()
                        $0.configuration.pinningMode = .certificate
                        $0.configuration.allowInvalidCertificates = allowsInvalid
                        $0.configuration.pinnedCertificates = [intermediate]
                    }
                )
            )
        }
        cases.append(
            (
                "publicKey, invalid allowed",
                base.with {
                    $0.configuration.pins = pinned
                    $0.configuration.allowInvalidCertificates = true
                }
            )
        )
        for (name, scenario) in cases {
            let report = try scenario.evaluation()
            #expect(report.verdict == .fail && report.failure == .certificateUntrusted, "\(name): \(report)")
            #expect(try scenario.with { $0.host = "y.h.test" }.evaluation().isAccepted, "\(name)")
        }
    }

    @Test("22 a waived host check also waives the constraints")
    func waived() throws {
        var base = try scenario(["*.h.test"], host: "x.h.test") { $0.excludedNames = ["x.h.test"] }
        base.configuration.pins[0] = Pin(base.chain[0].publicKeyPin)
        try expect(base, .certificateUntrusted, mended: base.with { $0.configuration.validatesDomainName = false })
    }

    @Test("22 the constraints of every CA count, the anchor's too")
    func everyAuthority() throws {
        for place in 0..<3 {
            let builders = (0..<3).map { index in
                var builder = CertificateBuilder.authority("ca \(index)", validity: TestPKI.validity)
                if index == place { builder.excludedNames = ["x.h.test"] }
                return builder
            }
            let first = try builders[0].identity()
            let second = try builders[1].identity(issuer: first)
            let third = try builders[2].identity(issuer: second)
            let leaf = try CertificateBuilder.server(hosts: ["*.h.test"], validity: TestPKI.validity)
                .identity(issuer: third)
            let chain = [leaf.certificate, third.certificate, second.certificate]
            var scenario = Scenario(TestServer(identity: leaf, chain: chain), try TestPKI()).pinning(leaf.key.pin)
            scenario.anchors = TrustAnchors(certificates: [first.certificate])
            scenario.host = "x.h.test"
            try expect(scenario, .certificateUntrusted, mended: scenario.with { $0.host = "y.h.test" })
        }
    }

    @Test(
        "22 subtrees of names are read as RFC 5280 and OpenSSL read them",
        arguments: [
            // The base itself and names below it, but not other names with the same ending.
            ("h.test", "h.test", true), ("h.test", "x.h.test", true), ("h.test", "deep.x.h.test", true),
            ("h.test", "xh.test", false), ("h.test", "test", false), ("H.TEST", "x.h.test", true),
            // With a leading dot the base itself is not included.
            (".h.test", "h.test", false), (".h.test", "x.h.test", true), (".h.test", "xh.test", false),
            ("", "anything.test", true), ("x.h.test", "h.test", false),
        ]
    )
    func subtrees(base: String, host: String, isWithin: Bool) throws {
        let host = try Host(host)
        let subtree = [0x82, UInt8(base.utf8.count)] + Array(base.utf8)
        func authority(_ tag: UInt8) throws -> Certificate {
            var builder = CertificateBuilder.authority("constrained", validity: TestPKI.validity)
            let list: [UInt8] = [0x30, UInt8(subtree.count)] + subtree
            let tagged: [UInt8] = [tag, UInt8(list.count)] + list
            builder.rawNameConstraints = [0x30, UInt8(tagged.count)] + tagged
            return try builder.identity(issuer: root).certificate
        }
        let permitting = NameConstraints.objection(of: try authority(0xA0), to: host)
        #expect(permitting == (isWithin ? nil : .notPermitted))
        let excluding = NameConstraints.objection(of: try authority(0xA1), to: host)
        #expect(excluding == (isWithin ? .excluded : nil))
    }

    @Test("22 subtrees of addresses do not affect names")
    func addresses() throws {
        func objection(_ host: String, _ change: (inout CertificateBuilder) -> Void) throws -> NameConstraints
            .Objection?
        {
            var builder = CertificateBuilder.authority("constrained", validity: TestPKI.validity)
            change(&builder)
            return NameConstraints.objection(of: try builder.identity(issuer: root).certificate, to: try Host(host))
        }
        let ten: (inout CertificateBuilder) -> Void = { $0.permittedAddresses = ["10.0.0.0/255.0.0.0"] }
        #expect(try objection("10.1.2.3", ten) == nil)
        #expect(try objection("11.1.2.3", ten) == .notPermitted)
        #expect(try objection("2001:db8::1", ten) == .notPermitted)
        #expect(try objection("h.test", ten) == nil)
        let notTen: (inout CertificateBuilder) -> Void = { $0.excludedAddresses = ["10.0.0.0/255.0.0.0"] }
        #expect(try objection("10.1.2.3", notTen) == .excluded)
        #expect(try objection("11.1.2.3", notTen) == nil)
        let six: (inout CertificateBuilder) -> Void = { $0.excludedAddresses = ["2001:db8::/ffff:ffff::"] }
        #expect(try objection("2001:db8::1", six) == .excluded)
        #expect(try objection("2001:db9::1", six) == nil)
        #expect(try objection("10.1.2.3") { $0.permittedNames = ["h.test"] } == nil)
    }

    @Test("22 one of two permitted subtrees suffices, and excluded comes first")
    func combined() throws {
        func objection(_ host: String) throws -> NameConstraints.Objection? {
            var builder = CertificateBuilder.authority("constrained", validity: TestPKI.validity)
            builder.permittedNames = ["h.test", "i.test"]
            builder.excludedNames = ["x.i.test"]
            return NameConstraints.objection(of: try builder.identity(issuer: root).certificate, to: try Host(host))
        }
        #expect(try objection("a.h.test") == nil)
        #expect(try objection("a.i.test") == nil)
        #expect(try objection("x.i.test") == .excluded)
        #expect(try objection("a.j.test") == .notPermitted)
    }

    @Test(
        "22 unreadable constraints permit nothing",
        arguments: [
            // An excluded name with a wildcard, an empty label, a byte outside ASCII and a dot at its end.
            ("*.h.test", "x.i.test"), ("x..h.test", "x.i.test"), ("\u{e9}.test", "x.i.test"), ("h.test.", "x.i.test"),
        ]
    )
    func unreadableName(base: String, host: String) throws {
        let bytes = Array(base.utf8)
        let subtree: [UInt8] = [0x30, UInt8(bytes.count + 2), 0x82, UInt8(bytes.count)] + bytes
        func authority(_ tag: UInt8) throws -> Certificate {
            var builder = CertificateBuilder.authority("constrained", validity: TestPKI.validity)
            let tagged: [UInt8] = [tag, UInt8(subtree.count)] + subtree
            builder.rawNameConstraints = [0x30, UInt8(tagged.count)] + tagged
            return try builder.identity(issuer: root).certificate
        }
        let (permitting, excluding) = (try authority(0xA0), try authority(0xA1))
        let (name, address) = (try Host(host), try Host("192.0.2.1"))
        #expect(NameConstraints.objection(of: excluding, to: name) == .unreadable)
        // An invalid permitted subtree permits nothing.
        #expect(NameConstraints.objection(of: permitting, to: name) == .notPermitted)
        #expect(NameConstraints.objection(of: excluding, to: address) == nil)
    }

    @Test("22 malformed name constraints, and those with a minimum, are unreadable")
    func unreadableExtension() throws {
        func objection(_ bytes: [UInt8]) throws -> NameConstraints.Objection? {
            var builder = CertificateBuilder.authority("constrained", validity: TestPKI.validity)
            builder.rawNameConstraints = bytes
            return NameConstraints.objection(
                of: try builder.identity(issuer: root).certificate,
                to: try Host("x.h.test")
            )
        }
        let name = [0x82, 6] + Array("i.test".utf8)
        #expect(try objection([0x30, 12, 0xA1, 10, 0x30, 8] + name) == nil)
        // The same with minimum 1, then with bytes that are not valid subtrees.
        #expect(try objection([0x30, 15, 0xA1, 13, 0x30, 11] + name + [0x80, 1, 1]) == .unreadable)
        #expect(try objection([0x30, 3, 0xA1, 1, 0x05]) == .unreadable)
        #expect(try objection([0x04, 1, 0]) == .unreadable)
        // An address of five bytes.
        #expect(try objection([0x30, 11, 0xA1, 9, 0x30, 7, 0x87, 5, 10, 0, 0, 0, 0]) == nil)
    }
}
