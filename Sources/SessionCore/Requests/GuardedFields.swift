// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import ServerTrust

/// Fields that a request gets only on a connection whose server has proved enough: credentials that the request's sender does not
/// have.
///
/// They are written behind the request's own fields when the connection is there and its verdict is known, and enter no
/// compression table (RFC 7541, section 7.1.3). Their values are taken out of whatever head the server sends back, before anybody
/// else sees it.
package final class GuardedFields: Sendable {
    /// What a server has to have proved.
    package enum Demand: Sendable {
        /// One of the pinned keys.
        case pin
        /// The same; or chain and host, where no pins are for the host.
        case pinIfAny
        /// No server may have them.
        case never
        /// Nothing: there are no fields, and the response alone is masked.
        case nothing

        /// - Parameter allowUnpinned: whether servers that no pin is for may have the fields.
        package init(allowUnpinned: Bool) { self = allowUnpinned ? .pinIfAny : .pin }

        /// Whether a server has proved that.
        ///
        /// - Parameter evaluation: what the policy found about the connection's server; nil without TLS.
        package func isMet(by evaluation: TrustEvaluation?) -> Bool {
            if self == .nothing { return true }
            return switch evaluation?.verdict {
            case .pass: self != .never
            case .notPinned: self == .pinIfAny
            case .fail, .reportOnly, .unverified, .expired, nil: false
            }
        }
    }

    package let fields: HeaderFields
    private let demand: Demand
    private let masks: [SecretMask]

    /// - Parameter masks: what is masked in heads and trailers of the response.
    package init(_ fields: HeaderFields, for demand: Demand, masks: [SecretMask]) {
        self.fields = fields
        self.demand = demand
        self.masks = masks
    }

    /// The same fields, with the values of others masked, too.
    package func masking(alsoThoseOf other: GuardedFields) -> GuardedFields {
        GuardedFields(fields, for: demand, masks: masks + other.masks)
    }

    /// For a request that gets none of the fields: their values are masked in its response all the same.
    package var masksAlone: GuardedFields { GuardedFields(HeaderFields(), for: .nothing, masks: masks) }

    /// Whether there are no fields, and the response alone is masked.
    var isMaskAlone: Bool { demand == .nothing }

    /// Whether the server may have the fields.
    ///
    /// - Parameter evaluation: what the policy found about the connection's server; nil without TLS.
    package func mayGo(under evaluation: TrustEvaluation?) -> Bool {
        demand.isMet(by: evaluation)
    }

    /// Makes the values in fields that have come back unreadable, and keeps the lengths.
    package func mask(_ fields: inout HeaderFields) {
        for mask in masks { mask.apply(to: &fields) }
    }

    /// The head without the values; nil when it has none.
    package func masked(_ head: borrowing ResponseHead) -> ResponseHead? {
        guard isHeld(in: head.fields) else { return nil }
        var masked = copy head
        masked.changeFields { mask(&$0) }
        return masked
    }

    /// The error with the values masked in its details, which may quote what the server has sent.
    package func masked(_ error: SessionError) -> SessionError {
        var details = Array(error.details.utf8)
        guard masks.contains(where: { $0.holds(details.span) }) else { return error }
        for mask in masks { details = mask.masked(details.span) }
        return error.with(details: String(decoding: details, as: UTF8.self))
    }

    private func isHeld(in fields: borrowing HeaderFields) -> Bool {
        for mask in masks where mask.isHeld(in: fields) { return true }
        return false
    }

    /// The error of a request that may not go out on a connection; nil where it may.
    ///
    /// - Parameters:
    ///   - evaluation: what the policy found about the connection's server; nil without TLS.
    ///   - isOwned: a client has authenticated the connection, or is about to.
    func refusal(of endpoint: Endpoint, on evaluation: TrustEvaluation?, isOwned: Bool) -> SessionError? {
        if !isOwned || isMaskAlone, mayGo(under: evaluation) { return nil }
        return refusal(of: endpoint, evaluation)
    }

    /// The error of a request whose server may not have the fields.
    package func refusal(of endpoint: Endpoint, _ evaluation: TrustEvaluation?) -> SessionError {
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
                (
                    "the connection belongs to a client that has authenticated it",
                    "Let the client not authenticate itself."
                )
            }
        return SessionError(
            .credentialWithheld,
            "\(endpoint.authorityText) gets no credential: \(cause). Nothing of the request was sent. \(remedy)",
            evaluation: evaluation
        )
    }
}
