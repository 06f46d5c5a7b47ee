// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

/// The subject of a challenge: a server's realm, its certificate, or its request for the client's.
public struct ProtectionSpace: Hashable, Sendable {
    /// The kinds of proof, under Foundation's names.
    public enum AuthenticationMethod: Hashable, Sendable {
        /// The server's certificate (RFC 8446, section 4.4.2).
        case serverTrust
        /// The client's certificate, within TLS.
        case clientCertificate
        /// RFC 7617.
        case httpBasic
        /// RFC 7616, with the hash that the server names.
        case httpDigest
        /// RFC 6750.
        case bearer
    }

    /// The scheme by which the server is reached.
    public let scheme: Endpoint.Scheme
    /// The host of the request's URL, not of a proxy.
    public let host: Host
    /// The port, from 1 to 65535; the scheme's default when the URL has none.
    public let port: UInt16
    /// The realm of HTTP authentication; nil for certificates, and when the server names none.
    public let realm: String?
    /// The kind of proof.
    public let authenticationMethod: AuthenticationMethod

    /// A space to store a credential for; without a realm it stands for every realm that has no credential of its own.
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
