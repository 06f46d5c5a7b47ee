// SPDX-License-Identifier: Apache-2.0
import ServerTrust

/// A server's refusal of the client's certificate. A server of TLS 1.3 looks at the certificate behind the handshake, so that its
/// alert is the first thing that comes, when the request is already on its way (RFC 8446, section 4.4.2.4).
struct ClientCertificateRefusal {
    private let alert: StaticString
    private let identity: ClientIdentity?

    /// - Parameter alert: what has ended the connection.
    /// - Returns: nil unless the server has asked for a certificate, and the alert is about one.
    init?(_ alert: TLSAlert?, _ verification: TLSVerification?) {
        guard let alert, alert.isAboutCertificate, let name = alert.name,
            let verification, verification.wasAskedForCertificate
        else { return nil }
        self.alert = name
        identity = verification.clientIdentity
    }

    func error(of authority: String) -> SessionError {
        SessionError(
            .clientCertificateRefused,
            "\(authority) has refused the client: \(words) The request was not processed."
        )
    }

    /// The alert, the certificate that was sent, and the remedy, in sentences.
    var words: String {
        guard let identity else {
            return "it asks for a client certificate, and no certificate was sent (alert \(alert)). "
                + "Name one in its pin file (clientCertificate)."
        }
        let file = identity.file.map { " of \($0)" } ?? ""
        return "the certificate that was sent, \"\(identity.certificates[0].subject)\"\(file), is not accepted "
            + "(alert \(alert)). \(remedy)"
    }

    private var remedy: String {
        switch "\(alert)" {
        case "certificate_expired": "Renew it, and check its dates."
        case "certificate_revoked": "Get another one from its issuer."
        case "unknown_ca":
            "The server does not know its issuer: send the intermediate certificates too, in the same file, or take a certificate of an authority that the server trusts."
        default: "Ask the server's operator which certificates it accepts."
        }
    }
}
