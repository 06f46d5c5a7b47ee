package import HTTPCore
package import ServerTrust

/// Fields that a request gets only on a connection whose server has proved enough: credentials that the request's sender does not
/// have. A class to inherit from.
///
/// They are written behind the request's own fields when the connection is there and its verdict is known, and enter no
/// compression table (RFC 7541, section 7.1.3). Their values are taken out of whatever head the server sends back, before anybody
/// else sees it.
package class GuardedFields {
    package final let fields: HeaderFields

    package init(_ fields: HeaderFields) { self.fields = fields }

    /// Whether the server may have the fields.
    ///
    /// - Parameter evaluation: what the policy found about the connection's server; nil without TLS.
    package func mayGo(under evaluation: TrustEvaluation?) -> Bool { evaluation?.verdict == .pass }

    /// Whether one of the fields that have come back holds a value.
    package func isHeld(in fields: borrowing HeaderFields) -> Bool { false }

    /// Makes the values in fields unreadable, and keeps the lengths.
    package func mask(_ fields: inout HeaderFields) {}
}

extension GuardedFields {
    /// The head without the values; nil when it has none.
    package final func masked(_ head: borrowing ResponseHead) -> ResponseHead? {
        guard isHeld(in: head.fields) else { return nil }
        var masked = copy head
        masked.changeFields { mask(&$0) }
        return masked
    }

    /// The error of a request whose server may not have the fields.
    package final func refusal(of endpoint: Endpoint, _ evaluation: TrustEvaluation?) -> SessionError {
        let (cause, remedy) =
            switch evaluation?.verdict {
            case nil: ("the connection has no TLS", "Ask for an https:// URL, or let the host have \"upgrade\": true.")
            case .notPinned:
                (
                    "no pin applies to its keys",
                    "Pin them (pinproxy pins show), or let the credential have \"allowUnpinned\": true."
                )
            case .reportOnly: ("its keys match no pin, which is only reported", "Pin the keys that it has now.")
            case .expired: ("its pin set has expired", "Renew the pin set.")
            case .unverified: ("its certificate is not checked", "Check the certificate, and pin its key.")
            case .pass, .fail:
                ("the connection belongs to a client that has authenticated it", "Let the client not authenticate itself.")
            }
        return SessionError(
            .credentialWithheld,
            "\(endpoint.authorityText) gets no credential: \(cause). Nothing of the request was sent. \(remedy)",
            evaluation: evaluation
        )
    }
}
