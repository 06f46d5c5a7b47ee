public import HTTPCore
public import SessionCore

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

    /// Whether the server is reached by TLS.
    public let scheme: Endpoint.Scheme
    /// The host that asks: of the request's URL, not of a proxy.
    public let host: Host
    /// From 1 to 65535; the scheme's own where the URL names none.
    public let port: UInt16
    /// Of HTTP authentication; nil for certificates, and where the server names none.
    public let realm: String?
    /// By what the proof is to be given.
    public let authenticationMethod: AuthenticationMethod

    /// A place to store a credential for: without a realm, it stands for every realm that has none of its own.
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
