package import HTTPCore

/// What the hello of a tunnel's client has to say, so that the tunnel leads where it was asked to lead.
package enum TunnelRule {
    package struct Refusal: Hashable, Sendable {
        /// For the log.
        package var reason: String
        /// What the client is told: an alert's description (RFC 8446, section 6); nil for a client without TLS.
        package var alert: UInt8?
    }

    /// - Parameter authority: the host of the CONNECT.
    /// - Returns: nil when the hello may go to the origin.
    package static func refusal(_ hello: ClientHello, authority: Host) -> Refusal? {
        guard let name = hello.serverName else {
            // A server that is asked for by its address is asked for no name (RFC 6066, section 3).
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
