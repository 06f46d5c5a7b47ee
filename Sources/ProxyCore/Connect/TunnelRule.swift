// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// The requirements for the hello of a tunnel's client, so that the tunnel reaches the host it was requested for.
package enum TunnelRule {
    package struct Refusal: Hashable, Sendable {
        /// The reason for the log.
        package var reason: String
        /// The description of the TLS alert for the client (RFC 8446, section 6); nil for a client without TLS.
        package var alert: UInt8?
    }

    /// - Parameter authority: the host of the CONNECT.
    /// - Returns: nil when the hello may be sent to the origin.
    package static func refusal(_ hello: ClientHello, authority: Host) -> Refusal? {
        guard let name = hello.serverName else {
            // A hello for an IP address contains no server name (RFC 6066, section 3).
            if authority.kind != .name { return nil }
            return Refusal(
                reason: "the client names no server (SNI), and the tunnel is for \(authority)",
                alert: 109
            )
        }
        guard name == authority else {
            return Refusal(reason: "the client asks for \(name) (SNI) in a tunnel for \(authority)", alert: 112)
        }
        return nil
    }

    package static func refusal(_ fault: ClientHelloFault) -> Refusal {
        switch fault {
        case .notTLS: Refusal(reason: "\(fault.message); only TLS goes through a tunnel", alert: nil)
        case .tooLarge: Refusal(reason: fault.message, alert: 47)
        case .malformed: Refusal(reason: fault.message, alert: 50)
        }
    }
}
