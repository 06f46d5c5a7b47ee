// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import TestSupport
import Testing

@testable import ServerTrust

@Suite("The profile of certificates below public CAs")
struct CertificateProfileTests {
    /// A breach of one certificate of the chain, as a change of the usual one.
    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var breach: CertificateProfile.Breach
        var host = CertificateWeb.host
        var ofCA: @Sendable (inout CertificateBuilder) -> Void = { _ in }
        var ofServer: @Sendable (inout CertificateBuilder) -> Void = { _ in }
    }

    private func evaluate(
        _ testCase: Case?,
        isPublic: Bool,
        policy: SecurityPolicy = .unpinned
    ) throws -> TrustEvaluation {
        var web = CertificateWeb()
        let root = try web.authority("root")
        let authority = try web.authority("CA", by: "root") { testCase?.ofCA(&$0) }
        let issuer = Identity(certificate: authority, key: try web.key("CA"))
        let name = testCase?.host ?? CertificateWeb.host
        var server = CertificateBuilder.server(hosts: [name], validity: TestPKI.validity)
        testCase?.ofServer(&server)
        return policy.evaluate(
            chain: [try server.certificate(for: web.key("server"), issuer: issuer), authority],
            host: try Host(name),
            anchors: TrustAnchors(certificates: [root], publicKeys: isPublic ? [root.publicKeyPin] : []),
            at: CertificateWeb.now
        )
    }

    static let cases: [Case] = [
        Case(
            testDescription: "an extension that cannot be read",
            breach: .unreadableExtension("Authority Information Access"),
            ofServer: { $0.otherExtensions = [("authorityInfoAccess", "DER:0500")] }
        ),
        Case(
            testDescription: "an extension of a CA that cannot be read",
            breach: .unreadableExtension("Authority Information Access"),
            ofCA: { $0.otherExtensions = [("authorityInfoAccess", "DER:0500")] }
        ),
        Case(
            testDescription: "a serial number of zero",
            breach: .serialNumber,
            ofServer: { $0.serialNumber = 0 }
        ),
        Case(
            testDescription: "a negative serial number",
            breach: .serialNumber,
            ofServer: { $0.rawSerialNumber = "-05" }
        ),
        Case(
            testDescription: "a serial number of 21 octets",
            breach: .serialNumber,
            ofServer: { $0.rawSerialNumber = "80" + String(repeating: "00", count: 19) }
        ),
        Case(
            testDescription: "a CA's serial number of zero",
            breach: .serialNumber,
            ofCA: { $0.serialNumber = 0 }
        ),
        Case(
            testDescription: "no authority key identifier",
            breach: .noAuthorityKeyIdentifier,
            ofServer: { $0.writesKeyIdentifiers = false }
        ),
        Case(
            testDescription: "no authority key identifier of a CA",
            breach: .noAuthorityKeyIdentifier,
            ofCA: {
                $0.writesKeyIdentifiers = false
                $0.otherExtensions = [("subjectKeyIdentifier", "hash")]
            }
        ),
        Case(
            testDescription: "no subject key identifier of a CA",
            breach: .noSubjectKeyIdentifier,
            ofCA: {
                $0.writesKeyIdentifiers = false
                $0.otherExtensions = [("authorityKeyIdentifier", "keyid")]
            },
            // There is none that could be named.
            ofServer: {
                $0.writesKeyIdentifiers = false
                $0.otherExtensions = [("authorityKeyIdentifier", "DER:30048002ABCD")]
            }
        ),
        Case(
            testDescription: "a CA without a name",
            breach: .noSubject,
            ofCA: { $0.subject = [] }
        ),
        Case(
            testDescription: "policy constraints that are not critical",
            breach: .policyConstraintsNotCritical,
            ofCA: { $0.otherExtensions = [("policyConstraints", "requireExplicitPolicy:3")] }
        ),
        Case(
            testDescription: "name constraints without a name",
            breach: .malformedNameConstraints,
            ofCA: { $0.rawNameConstraints = [0x30, 0x00] }
        ),
        Case(
            testDescription: "name constraints that begin with a dot",
            breach: .malformedNameConstraints,
            ofCA: { $0.permittedNames = [".example.com"] }
        ),
        Case(
            testDescription: "a server with name constraints",
            breach: .nameConstraintsOfServer,
            ofServer: { $0.permittedNames = ["example.com"] }
        ),
        Case(
            testDescription: "a server that may sign certificates",
            breach: .signsCertificates,
            ofServer: { $0.keyUsage = ["digitalSignature", "keyCertSign"] }
        ),
        Case(
            testDescription: "a server that is a CA",
            breach: .isCA,
            ofServer: {
                $0.isCA = true
                $0.keyUsage = ["digitalSignature"]
            }
        ),
        Case(
            testDescription: "a server for every use",
            breach: .forEveryUse,
            ofServer: { $0.extendedKeyUsage = ["serverAuth", "anyExtendedKeyUsage"] }
        ),
        Case(
            testDescription: "names that are not critical, and no subject",
            breach: .namesNotCritical,
            ofServer: {
                $0.subject = []
                $0.namesAreCritical = false
            }
        ),
        Case(
            testDescription: "a name with an empty label",
            breach: .malformedName(".example.com"),
            ofServer: { $0.names.append(.dns(".example.com")) }
        ),
        Case(
            testDescription: "every name below a public suffix",
            breach: .wildcardOfSuffix("co.uk"),
            host: "example.co.uk",
            ofServer: { $0.names = [.dns("*.co.uk")] }
        ),
    ]

    @Test("the profile applies to public CAs, and not to private ones", arguments: cases)
    func breach(testCase: Case) throws {
        let refused = try evaluate(testCase, isPublic: true)
        #expect(refused.failure == .certificateUntrusted, "\(refused)")
        #expect(refused.reason.contains(testCase.breach.text), "\(refused)")
        #expect(refused.remedy.contains("\"CN = root\" under trustAnchors"), "\(refused)")
        // The twin: the same chain where the root is one of the operator's own.
        let accepted = try evaluate(testCase, isPublic: false)
        #expect(accepted.verdict == .notPinned, "\(accepted)")
    }

    @Test("a usual chain satisfies the profile")
    func usual() throws {
        #expect(try evaluate(nil, isPublic: true).verdict == .notPinned)
    }

    @Test("the profile demands whole octets of an RSA key")
    func oddKey() throws {
        var web = CertificateWeb()
        let root = try web.authority("root")
        let signer = try web.signer("root")
        for (bits, verdict) in [(2_048, TrustEvaluation.Verdict.notPinned), (2_052, .fail)] {
            let server = CertificateBuilder.server(hosts: [CertificateWeb.host], validity: TestPKI.validity)
            let evaluation = SecurityPolicy.unpinned.evaluate(
                chain: [try server.certificate(for: KeyPair.shared(.rsa(bits: bits)), issuer: signer)],
                host: try Host(CertificateWeb.host),
                anchors: TrustAnchors(certificates: [root], publicKeys: [root.publicKeyPin]),
                at: CertificateWeb.now
            )
            #expect(evaluation.verdict == verdict, "\(evaluation)")
        }
    }

    @Test("a wildcard below a suffix is no breach beside the host's name")
    func namedBesideWildcard() throws {
        let named = Case(
            testDescription: "",
            breach: .noSubject,
            host: "Example.co.uk",
            ofServer: { $0.names = [.dns("*.co.uk"), .dns("eXample.co.uk")] }
        )
        #expect(try evaluate(named, isPublic: true).verdict == .notPinned)
        let ofCompany = Case(
            testDescription: "",
            breach: .noSubject,
            host: "example.github.io",
            ofServer: { $0.names = [.dns("*.github.io")] }
        )
        #expect(try evaluate(ofCompany, isPublic: true).verdict == .notPinned)
    }

    @Test("a path to a private CA replaces a public one that breaks the profile")
    func otherPath() throws {
        var web = CertificateWeb()
        let roots = [try web.authority("public"), try web.authority("private")]
        let authorities = try ["public", "private"].map { root in
            try web.authority("CA", by: root) { $0.serialNumber = root == "public" ? 0 : 7 }
        }
        let evaluation = SecurityPolicy.unpinned.evaluate(
            chain: [try web.server(by: "CA")] + authorities,
            host: try Host(CertificateWeb.host),
            anchors: TrustAnchors(certificates: roots, publicKeys: [roots[0].publicKeyPin]),
            at: CertificateWeb.now
        )
        #expect(evaluation.verdict == .notPinned && evaluation.chain.last?.subject == "CN = private", "\(evaluation)")
    }

    // MARK: - Whose roots are meant

    private static let bundle = "/etc/ssl/certs/ca-certificates.crt"

    @Test("the profile applies to the system's public roots, until a file names them")
    func whoseRoots() throws {
        var web = CertificateWeb()
        let own = try web.authority("own")
        let folder = try TemporaryFolder()
        let real = try Certificate.certificates(file: Self.bundle)
        let first = try #require(real.first { PublicRoots.contains($0.publicKeyPin) })
        let file = try folder.write(first.pem, as: "root.pem")
        let both = try TrustAnchorLibrary().anchors(system: true, files: [])
        #expect(both.publicKeys.contains(first.publicKeyPin))
        #expect(!both.publicKeys.contains(own.publicKeyPin))
        let named = try TrustAnchorLibrary().anchors(system: true, files: [file])
        #expect(!named.publicKeys.contains(first.publicKeyPin) && named.publicKeys.count == both.publicKeys.count - 1)
        #expect(try TrustAnchorLibrary().anchors(system: false, files: [file]).publicKeys.isEmpty)
        // What is asked of a chain is part of what stored answers are bound to.
        #expect(
            TrustAnchors(certificates: [first], publicKeys: [first.publicKeyPin]).digest
                != TrustAnchors(certificates: [first]).digest
        )
    }

    @Test("no root of this machine breaks the profile's constraints")
    func store() throws {
        var web = CertificateWeb()
        let server = try web.server(by: "own")
        let real = try Certificate.certificates(file: Self.bundle)
        for root in real {
            let found = CertificateProfile.breach(in: [server, root], host: nil)
            #expect(found == nil, "\(root.subject)")
        }
        #expect(real.count { PublicRoots.contains($0.publicKeyPin) } > real.count * 8 / 10)
    }

    // MARK: - The length of a chain

    @Test("a chain has at most maxChainDepth CAs, self-issued ones apart")
    func depth() throws {
        var web = CertificateWeb()
        let root = try web.authority("root")
        let first = try web.authority("A", by: "root")
        let renewed = try web.authority("A", by: "A", key: "A2")
        let second = try web.authority("B", by: "A", issuerKey: "A2")
        func accepts(_ chain: [Certificate], _ depth: Int) throws -> Bool {
            var configuration = SecurityPolicy.Configuration()
            configuration.maxChainDepth = depth
            let evaluation = try SecurityPolicy(configuration).evaluate(
                chain: chain,
                host: Host(CertificateWeb.host),
                anchors: TrustAnchors(certificates: [root]),
                at: CertificateWeb.now
            )
            if !evaluation.isAccepted { #expect(evaluation.remedy.contains("maxChainDepth"), "\(evaluation)") }
            return evaluation.isAccepted
        }
        #expect(try accepts([web.server(by: "root")], 0))
        #expect(try !accepts([web.server(by: "A"), first], 0))
        #expect(try accepts([web.server(by: "A"), first], 1))
        #expect(try accepts([web.server(by: "A", issuerKey: "A2"), renewed, first], 1))
        #expect(try !accepts([web.server(by: "B"), second, renewed, first], 1))
        #expect(try accepts([web.server(by: "B"), second, renewed, first], 2))
        var configuration = SecurityPolicy.Configuration()
        configuration.maxChainDepth = 11
        #expect(throws: SecurityPolicy.Faults.self) { try SecurityPolicy(configuration) }
    }
}
