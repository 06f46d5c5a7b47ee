// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// A fact about a chain that an operator should know, apart from whether it is valid.
struct ChainWarning {
    /// A stable code, for programs.
    var code: String
    var text: String

    init(_ code: String, _ text: String) {
        self.code = code
        self.text = text
    }

    /// - Parameter now: seconds since 1970.
    static func all(_ evaluation: TrustEvaluation, _ connection: ConnectionInfo?, now: Int64) -> [ChainWarning] {
        var warnings = evaluation.chain.compactMap { dates($0, now) }
        if isMadeOutToAnother(evaluation) {
            let why = evaluation.presentedChain.first?.lackOfNames.map { ": \($0)" } ?? ""
            warnings.append(.init("host_mismatch", "the certificate is not made out to \(evaluation.host)\(why)"))
        }
        warnings += evaluation.isChainValidated ? sentAndValidated(evaluation) : missingPath(evaluation)
        if connection?.isClientCertificateMissing == true {
            warnings.append(
                .init(
                    "client_certificate_wanted",
                    "the server asks for a client certificate: where it insists, name one under clientCertificate"
                )
            )
        }
        return warnings
    }

    private static func dates(_ certificate: Certificate, _ now: Int64) -> ChainWarning? {
        guard let begin = certificate.notBefore, let end = certificate.notAfter else {
            let which = certificate.notBefore == nil ? "begin (notBefore)" : "end (notAfter)"
            return .init(
                "certificate_date_unreadable",
                "the \(which) of \"\(certificate.subject)\" is not a time: every program refuses it"
            )
        }
        if now >= end {
            return .init("certificate_expired", "\"\(certificate.subject)\" has expired on \(certificate.lastDay)")
        }
        if now < begin {
            return .init("certificate_not_yet_valid", "\"\(certificate.subject)\" begins on \(certificate.firstDay)")
        }
        guard let near = Expiry.certificate(certificate, at: now), let share = near.share else { return nil }
        let left = near.days == 1 ? "1 day" : "\(near.days) days"
        return .init(
            "certificate_near_expiry",
            "\"\(certificate.subject)\" ends on \(certificate.lastDay), in \(left): \(share.words)"
        )
    }

    /// Whether the host check alone fails. For a server whose own key is the only requirement, nothing else can be
    /// refused.
    private static func isMadeOutToAnother(_ evaluation: TrustEvaluation) -> Bool {
        guard !evaluation.isChainValidated, let leaf = evaluation.presentedChain.first else { return false }
        var settings = SecurityPolicy.Configuration()
        settings.pinningMode = .publicKey
        settings.allowInvalidCertificates = true
        settings.allowSinglePin = true
        settings.pins = [Pin(leaf.publicKeyPin, scope: .leaf)]
        guard let policy = try? SecurityPolicy(settings) else { return false }
        let now = Clock.seconds
        let none = TrustAnchors(certificates: [])
        let host = policy.evaluate(chain: [leaf], host: evaluation.host, anchors: none, at: now)
        return host.failure == .certificateHostMismatch
    }

    /// The place where the path from the server's certificate ends, by the names of the issuers.
    private static func missingPath(_ evaluation: TrustEvaluation) -> [ChainWarning] {
        guard evaluation.failure == .certificateUntrusted, let leaf = evaluation.presentedChain.first else { return [] }
        var last = leaf
        for _ in evaluation.presentedChain where !last.isSelfIssued {
            guard let issuer = evaluation.presentedChain.first(where: { $0.subject == last.issuer }) else { break }
            last = issuer
        }
        if last.isSelfIssued {
            return [
                .init(
                    "unknown_root",
                    "the chain leads to \"\(last.subject)\", which is no anchor here: for a private authority, name it "
                        + "with --anchors FILE"
                )
            ]
        }
        return [
            .init(
                "incomplete_chain",
                "the certificate of \"\(last.issuer)\" was not sent and is no anchor here: have the server send its "
                    + "whole chain"
            )
        ]
    }

    private static func sentAndValidated(_ evaluation: TrustEvaluation) -> [ChainWarning] {
        var warnings: [ChainWarning] = []
        let sent = evaluation.presentedChain
        for certificate in evaluation.chain
        where !certificate.isSelfIssued && !sent.contains(where: { $0.isSame(as: certificate) }) {
            warnings.append(
                .init(
                    "incomplete_chain",
                    "\"\(certificate.subject)\" was not sent, and is known here by luck: programs without it among "
                        + "their anchors refuse the server"
                )
            )
        }
        for other in sent where !evaluation.chain.contains(where: { $0.isSame(as: other) }) {
            let sibling = evaluation.chain.first {
                $0.publicKeyPin == other.publicKeyPin && $0.subject == other.subject
            }
            if sibling != nil {
                warnings.append(
                    .init(
                        "cross_signed",
                        "\"\(other.subject)\" was also sent as signed by \"\(other.issuer)\": a machine with other "
                            + "anchors may build another chain, which ends in another root"
                    )
                )
            } else {
                warnings.append(.init("superfluous_certificate", "\"\(other.subject)\" was sent and is not needed"))
            }
        }
        return warnings
    }
}
