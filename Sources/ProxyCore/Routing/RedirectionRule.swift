// SPDX-License-Identifier: Apache-2.0
import ProxyConfiguration

/// Why a connection to a transparent listener is not served, whatever it is for.
enum RedirectionRule {
    /// The refusal of a connection that was made to a listener of this program; nil for one that was going elsewhere.
    static func refusal(to original: AddressAndPort, under rules: AddressRules) -> Problem? {
        // No other rule decides here: those about addresses are asked when the route is known.
        let verdict = rules.evaluate(original.address, port: original.port, exempting: original)
        guard verdict == .deniedOwnListener else { return nil }
        return Problem(
            .misdirectedRequest,
            "The connection was made to a listener of this proxy itself (\(original)), and was not redirected to it from elsewhere. "
                + "Have the kernel redirect connections (pinproxy redirect prints the rules), or let clients use a listener of mode forward."
        )
    }

    /// A connection of this program itself has come back to it.
    static func isLoop(_ original: AddressAndPort) -> Problem {
        Problem(
            .loopDetected,
            "A connection of this proxy itself to \(original) was redirected back to it. Exempt the user that it runs as from the redirection (pinproxy redirect --user)."
        )
    }

    static func isNeither(_ original: AddressAndPort) -> Problem {
        Problem(
            .connectDenied,
            "The first bytes to \(original) are neither TLS nor HTTP, and a transparent listener carries nothing else. Leave the port out of the redirection."
        )
    }

    /// - Parameter limit: in milliseconds.
    static func isLate(_ original: AddressAndPort, _ limit: Int, hasBegun: Bool) -> Problem {
        Problem(
            .requestTimeout,
            hasBegun
                ? "The first bytes to \(original) were not complete within timeouts.head (\(limit) ms)."
                : "The client of \(original) said nothing within timeouts.head (\(limit) ms): where the server speaks first, a transparent listener cannot tell the protocol. Leave the port out of the redirection."
        )
    }

    /// The description of the alert for a client of TLS (RFC 8446, section 6) whose connection gets this status.
    static func alert(ofStatus status: Int) -> UInt8 {
        switch status {
        // access_denied
        case 403, 508: 49
        // unrecognized_name
        case 421: 112
        // internal_error
        default: 80
        }
    }
}
