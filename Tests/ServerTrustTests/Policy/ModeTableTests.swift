// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

/// Every cell of the mode table (scenarios 53 to 57): the result of each mode for each kind of server.
@Suite("The mode table")
struct ModeTableTests {
    enum Server: String, CaseIterable, Sendable {
        /// A valid chain to the anchors, for the host, with a pinned leaf.
        case good
        /// The same, and its certificate has expired.
        case expired
        /// The same, for another host.
        case otherHost
        /// A valid chain with another key and certificate than the pinned ones.
        case otherKey
        /// Self-signed and pinned.
        case selfSigned
        /// Self-signed, and not pinned.
        case selfSignedUnpinned
        /// Self-signed and pinned, for another host.
        case selfSignedOtherHost
        /// Issued by a CA that is not an anchor but pinned; the server sends the CA's certificate.
        case privateCA
        /// The same, for another host.
        case privateCAOtherHost
        /// The same, and the leaf has expired.
        case privateCAExpired
        /// Self-signed, pinned and expired.
        case selfSignedExpired
    }

    struct Cell: CustomTestStringConvertible, Sendable {
        var mode: SSLPinningMode
        var allowInvalid: Bool
        var validatesName: Bool
        /// The servers that are accepted, with their verdicts; all others are refused.
        var accepted: [Server: TrustEvaluation.Verdict]
        /// The reasons why some of the others are refused.
        var failures: [Server: TrustFailure]

        var testDescription: String { "\(mode), invalid \(allowInvalid), name \(validatesName)" }
    }

    static let cells: [Cell] = [
        Cell(
            mode: .none,
            allowInvalid: false,
            validatesName: true,
            accepted: [.good: .notPinned, .otherKey: .notPinned],
            failures: [
                .expired: .certificateExpired, .otherHost: .certificateHostMismatch,
                .selfSigned: .certificateUntrusted, .privateCA: .certificateUntrusted,
            ]
        ),
        Cell(
            mode: .none,
            allowInvalid: false,
            validatesName: false,
            accepted: [.good: .unverified, .otherKey: .unverified, .otherHost: .unverified],
            failures: [.expired: .certificateExpired, .selfSigned: .certificateUntrusted]
        ),
        Cell(
            mode: .none,
            allowInvalid: true,
            validatesName: false,
            accepted: Dictionary(uniqueKeysWithValues: Server.allCases.map { ($0, .unverified) }),
            failures: [:]
        ),
        Cell(
            mode: .certificate,
            allowInvalid: false,
            validatesName: true,
            accepted: [.good: .pass],
            failures: [
                .expired: .certificateExpired, .otherHost: .certificateHostMismatch, .otherKey: .pinMismatch,
                .selfSigned: .certificateUntrusted, .privateCA: .certificateUntrusted,
            ]
        ),
        Cell(
            mode: .certificate,
            allowInvalid: false,
            validatesName: false,
            accepted: [.good: .pass, .otherHost: .pass],
            failures: [.expired: .certificateExpired, .otherKey: .pinMismatch, .privateCA: .certificateUntrusted]
        ),
        Cell(
            mode: .certificate,
            allowInvalid: true,
            validatesName: true,
            accepted: [.good: .pass, .selfSigned: .pass, .privateCA: .pass],
            failures: [
                .expired: .certificateExpired, .otherHost: .certificateHostMismatch, .otherKey: .pinMismatch,
                .selfSignedUnpinned: .pinMismatch, .selfSignedOtherHost: .certificateHostMismatch,
                .privateCAOtherHost: .certificateHostMismatch, .privateCAExpired: .certificateExpired,
                .selfSignedExpired: .certificateExpired,
            ]
        ),
        Cell(
            mode: .certificate,
            allowInvalid: true,
            validatesName: false,
            accepted: [.good: .pass, .selfSigned: .pass, .otherHost: .pass, .selfSignedOtherHost: .pass],
            failures: [
                .expired: .certificateExpired, .otherKey: .pinMismatch, .privateCA: .pinMismatch,
                .privateCAOtherHost: .pinMismatch, .selfSignedExpired: .certificateExpired,
            ]
        ),
        Cell(
            mode: .publicKey,
            allowInvalid: false,
            validatesName: true,
            accepted: [.good: .pass],
            failures: [
                .expired: .certificateExpired, .otherHost: .certificateHostMismatch, .otherKey: .pinMismatch,
                .selfSigned: .certificateUntrusted, .privateCA: .certificateUntrusted,
            ]
        ),
        Cell(
            mode: .publicKey,
            allowInvalid: false,
            validatesName: false,
            accepted: [.good: .pass, .otherHost: .pass],
            failures: [.expired: .certificateExpired, .otherKey: .pinMismatch, .selfSigned: .certificateUntrusted]
        ),
        Cell(
            mode: .publicKey,
            allowInvalid: true,
            validatesName: true,
            accepted: [
                .good: .pass, .expired: .pass, .selfSigned: .pass, .selfSignedExpired: .pass, .privateCA: .pass,
                .privateCAExpired: .pass,
            ],
            failures: [
                .otherHost: .certificateHostMismatch, .otherKey: .pinMismatch,
                .selfSignedUnpinned: .pinMismatch, .selfSignedOtherHost: .certificateHostMismatch,
                .privateCAOtherHost: .certificateHostMismatch,
            ]
        ),
        Cell(
            mode: .publicKey,
            allowInvalid: true,
            validatesName: false,
            accepted: [
                .good: .pass, .expired: .pass, .otherHost: .pass, .selfSigned: .pass, .selfSignedOtherHost: .pass,
                .selfSignedExpired: .pass,
            ],
            failures: [
                .otherKey: .pinMismatch, .selfSignedUnpinned: .pinMismatch, .privateCA: .pinMismatch,
                .privateCAOtherHost: .pinMismatch,
            ]
        ),
    ]

    private let pki: TestPKI
    private let other: TestPKI

    init() throws {
        pki = try TestPKI()
        other = try TestPKI("private")
    }

    /// The chain that a server sends, and the certificate that is pinned for it.
    private func make(_ server: Server) throws -> (chain: [Certificate], pinned: Certificate) {
        let isOtherHost = [.otherHost, .selfSignedOtherHost, .privateCAOtherHost].contains(server)
        let host = isOtherHost ? "other.example" : Scenario.host
        var builder = CertificateBuilder.server(hosts: [host], validity: TestPKI.validity)
        if [.expired, .privateCAExpired, .selfSignedExpired].contains(server) { builder.notAfter = Scenario.now - 1 }
        switch server {
        case .good, .expired, .otherHost, .otherKey:
            let made = try pki.server(builder)
            let pinned = server == .otherKey ? try pki.server(Scenario.host).certificate : made.certificate
            return (made.chain, pinned)
        case .selfSigned, .selfSignedUnpinned, .selfSignedOtherHost, .selfSignedExpired:
            let made = try builder.identity()
            let pinned = server == .selfSignedUnpinned ? try pki.server(Scenario.host).certificate : made.certificate
            return ([made.certificate], pinned)
        case .privateCA, .privateCAOtherHost, .privateCAExpired:
            return (try other.server(builder).chain, other.intermediate.certificate)
        }
    }

    @Test("53 to 57 every cell accepts exactly what the table says", arguments: cells)
    func cell(cell: Cell) throws {
        for server in Server.allCases {
            let (chain, pinned) = try make(server)
            var configuration = SecurityPolicy.Configuration()
            configuration.pinningMode = cell.mode
            configuration.allowInvalidCertificates = cell.allowInvalid
            configuration.validatesDomainName = cell.validatesName
            switch cell.mode {
            case .none: break
            case .certificate: configuration.pinnedCertificates = [pinned]
            case .publicKey: configuration.pins = [Pin(pinned.publicKeyPin), Pin(.unrelated(200))]
            }
            let policy = try SecurityPolicy(configuration)
            let report = policy.evaluate(
                chain: chain,
                host: try Host(Scenario.host),
                anchors: pki.anchors,
                at: Scenario.now
            )
            #expect(report.verdict == cell.accepted[server] ?? .fail, "\(server): \(report)")
            if let failure = cell.failures[server] { #expect(report.failure == failure, "\(server): \(report)") }
            #expect((report.failure == nil) == report.isAccepted, "\(server)")
            #expect(policy.isUnverified == (report.verdict == .unverified) || report.verdict == .fail)
        }
    }

    @Test("the one forbidden cell is refused when the policy is made")
    func forbiddenCell() {
        var configuration = SecurityPolicy.Configuration()
        configuration.allowInvalidCertificates = true
        #expect(configuration.faults().map(\.key) == ["allowInvalidCertificates"])
        configuration.validatesDomainName = false
        #expect(configuration.faults().isEmpty)
    }

    private func selfSigned(_ hosts: String...) throws -> Identity {
        try CertificateBuilder.server(hosts: hosts, validity: TestPKI.validity).identity()
    }

    /// A self-signed server in a mode that allows invalid certificates, pinned to another one or to itself.
    private func scenario(
        _ shown: Identity,
        _ mode: SSLPinningMode,
        pinning pinned: Identity,
        allowInvalid: Bool = true
    ) -> Scenario {
        var scenario = Scenario(TestServer(identity: shown, chain: [shown.certificate]), pki)
        scenario.configuration.pinningMode = mode
        scenario.configuration.allowInvalidCertificates = allowInvalid
        if mode == .certificate { scenario.configuration.pinnedCertificates = [pinned.certificate] }
        if mode == .publicKey { scenario.configuration.pins = [Pin(pinned.key.pin), Pin(.unrelated(200))] }
        return scenario
    }

    @Test("53 a pinned self-signed server passes where invalid certificates are allowed")
    func selfSignedPinned() throws {
        let server = try selfSigned(Scenario.host)
        for mode in [SSLPinningMode.certificate, .publicKey] {
            try expect(
                scenario(server, mode, pinning: server, allowInvalid: false),
                .certificateUntrusted,
                mended: scenario(server, mode, pinning: server)
            )
        }
    }

    @Test("54 an unpinned self-signed server is refused in every mode")
    func selfSignedUnpinned() throws {
        let (server, other) = (try selfSigned(Scenario.host), try selfSigned(Scenario.host))
        for mode in [SSLPinningMode.certificate, .publicKey] {
            try expect(
                scenario(server, mode, pinning: other),
                .pinMismatch,
                mended: scenario(other, mode, pinning: other)
            )
            // When a valid chain is required, a trusted certificate is not a pinned one either.
            let trusted = scenario(server, mode, pinning: other, allowInvalid: false).with {
                $0.anchors = TrustAnchors(certificates: [server.certificate, other.certificate])
            }
            try expect(trusted, .pinMismatch, mended: trusted.with { $0.chain = [other.certificate] })
        }
    }

    @Test("56 with invalid certificates allowed, a pinned server needs its host's name")
    func invalidOtherHost() throws {
        for mode in [SSLPinningMode.certificate, .publicKey] {
            let (right, wrong) = (try selfSigned(Scenario.host), try selfSigned("other.example"))
            try expect(
                scenario(wrong, mode, pinning: wrong),
                .certificateHostMismatch,
                mended: scenario(right, mode, pinning: right)
            )
        }
    }

    @Test("57 a private CA is trusted through the domain's anchors, which replace global ones")
    func ownAnchors() throws {
        let server = try other.server(Scenario.host)
        let base = try Scenario(other.server(Scenario.host), other).with {
            $0.chain = server.chain
            $0.anchors = pki.anchors
        }
        let own = base.with { $0.configuration.trustAnchors = other.anchors }
        try expect(base.pinning(server.pin), .certificateUntrusted, mended: own.pinning(server.pin))
        // The global ones do not count in addition.
        let global = try pki.server(Scenario.host)
        let replaced = own.with { $0.chain = global.chain }
        #expect(try replaced.evaluation().failure == .certificateUntrusted)
    }

    @Test("in publicKey mode a rogue chain cannot borrow a pinned CA it sends")
    func borrowedCA() throws {
        let rogue = try TestPKI("rogue").server(Scenario.host)
        var scenario = Scenario(rogue, pki).pinning(other.intermediate.key.pin)
        scenario.configuration.allowInvalidCertificates = true
        scenario.chain.append(other.intermediate.certificate)
        let mended = try scenario.with { $0.chain = try other.server(Scenario.host).chain }
        try expect(scenario, .pinMismatch, mended: mended)
    }

    @Test("a forged certificate of a pinned CA's key does not count")
    func forgedAuthority() throws {
        // The holder of a constrained CA's key makes another certificate for this key, without the constraints.
        var builder = CertificateBuilder.authority("constrained", validity: TestPKI.validity)
        builder.permittedNames = ["own.example"]
        let real = try builder.identity()
        func shown(_ name: String, _ host: String) throws -> TestServer {
            let authority = CertificateBuilder.authority(name, validity: TestPKI.validity)
            let forged = Identity(certificate: try authority.certificate(for: real.key), key: real.key)
            let leaf = try CertificateBuilder.server(hosts: [host], validity: TestPKI.validity).identity(issuer: forged)
            return TestServer(identity: leaf, chain: [leaf.certificate, forged.certificate])
        }
        for name in ["constrained", "another name"] {
            let bare = try Scenario(shown(name, Scenario.host), pki)
                .pinning(real.key.pin).with { $0.configuration.allowInvalidCertificates = true }
            // The contents of the real certificate are unknown if only the key is given.
            #expect(try bare.evaluation().verdict == .pass)
            let own = try CertificateBuilder.server(hosts: ["own.example"], validity: TestPKI.validity)
                .identity(issuer: real)
            for inFiles in [
                bare.with { $0.configuration.pinnedCertificates = [real.certificate] },
                bare.with { $0.configuration.trustAnchors = TrustAnchors(certificates: [real.certificate]) },
                bare.with { $0.anchors = TrustAnchors(certificates: [real.certificate, pki.root.certificate]) },
            ] {
                let refused = try inFiles.evaluation()
                #expect(refused.verdict == .fail, "\(name): \(refused)")
                let mended = inFiles.with {
                    $0.chain = [own.certificate]
                    $0.host = "own.example"
                }
                let accepted = try mended.evaluation()
                #expect(accepted.verdict == .pass, "\(name): \(accepted)")
            }
        }
    }

    @Test("in publicKey mode an expired path to a pinned anchor counts")
    func expiredPathToAnchor() throws {
        var builder = CertificateBuilder.server(hosts: [Scenario.host], validity: TestPKI.validity)
        builder.notAfter = Scenario.now - 1
        let expired = try Scenario(pki.server(builder), pki).pinning(pki.root.key.pin)
        let mended = expired.with { $0.configuration.allowInvalidCertificates = true }
        try expect(expired, .certificateExpired, mended: mended)
        #expect(try mended.evaluation().goodUntil == .max)
    }

    @Test("a leaf pin makes no CA of a sent certificate")
    func leafScopeOnCA() throws {
        var scenario = try Scenario(other.server(Scenario.host), pki)
            .pinning(other.intermediate.key.pin, .leaf)
        scenario.configuration.allowInvalidCertificates = true
        try expect(scenario, .pinMismatch, mended: scenario.pinning(other.intermediate.key.pin, .ca))
    }
}
