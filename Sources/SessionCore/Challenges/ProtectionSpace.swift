public import HTTPCore

/// What asks for proof: a server's realm, its certificate, or its wish to see ours.
public struct ProtectionSpace: Hashable, Sendable {
    /// By what the proof is given, under Foundation's names.
    public enum AuthenticationMethod: Hashable, Sendable {
        /// The server has proved who it is (RFC 8446, section 4.4.2).
        case serverTrust
        /// The server asks who we are, within TLS.
        case clientCertificate
        /// RFC 7617.
        case httpBasic
        /// RFC 7616, with the hash that the server names.
        case httpDigest
        /// RFC 6750.
        case bearer
    }

    public let scheme: Endpoint.Scheme
    public let host: Host
    public let port: UInt16
    /// Of HTTP authentication; nil for certificates, and where the server names none.
    public let realm: String?
    public let authenticationMethod: AuthenticationMethod

    public init(
        scheme: Endpoint.Scheme = .https,
        host: Host,
        port: UInt16 = 443,
        realm: String? = nil,
        authenticationMethod: AuthenticationMethod
    ) {
        self.scheme = scheme
        self.host = host
        self.port = port
        self.realm = realm
        self.authenticationMethod = authenticationMethod
    }

    init(_ origin: Origin, realm: String? = nil, _ method: AuthenticationMethod) {
        self.init(
            scheme: origin.scheme == .https ? .https : .http,
            host: origin.host,
            port: origin.port,
            realm: realm,
            authenticationMethod: method
        )
    }
}
