// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
package import IOCore
public import ServerTrust
import Synchronization

/// Where requests go: scheme, host and port, how to get there, and what is asked of the server's certificate.
///
/// Made once for a host of a policy snapshot and shared by all its requests, so that nothing of it is worked out
/// again on the request path.
public final class Endpoint: Sendable {
    /// The scheme of a URL: without TLS, or with it.
    public enum Scheme: Sendable {
        /// Without TLS; nothing is proved.
        case http
        /// Over TLS, to a server that the policy has judged.
        case https
    }
    /// The version that is offered: HTTP/1.1, or HTTP/2 where the server takes it in the handshake (ALPN).
    public enum HTTPVersion: Sendable {
        /// HTTP/1.1 (RFC 9112): one request at a time on a connection.
        case http1
        /// HTTP/2 (RFC 9113), many requests on one connection; HTTP/1.1 with servers that do not have it.
        case http2
    }

    /// Whether TLS is spoken.
    public let scheme: Scheme
    /// The host of the certificate, and of `Host` or `:authority`.
    public let host: Host
    /// From 1 to 65535.
    public let port: UInt16
    /// The version that is offered in the handshake. `http` endpoints always have HTTP/1.1.
    public let httpVersion: HTTPVersion
    /// The policy that evaluates the certificate; unused for `http`.
    public let policy: SecurityPolicy
    /// Where chains may end, unless the policy has anchors of its own.
    public let anchors: TrustAnchors
    /// The generation of the snapshot that this belongs to.
    public let generation: UInt64
    /// What handshakes offer and ask for; unused for `http`.
    public let tls: TLSSettings
    /// The name that the server is asked for (SNI), and that its certificate has to have.
    var serverName: Host { tls.serverName ?? host }
    /// What is known about the profile that the server would need: 0 as long as no trial was made, 1 while it is made or without a
    /// result, then the place of the profile from 2.
    private let trial = Atomic<UInt8>(0)
    package let timeouts: TaskTimeouts
    /// A number for host and port, by which the threads for handshakes tell origins apart.
    var party: UInt64 {
        var hasher = Hasher()
        hasher.combine(host)
        hasher.combine(port)
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }
    /// Decides on each address before it is dialled; nil allows all.
    package let dialRule: (@Sendable (SocketAddress) -> DialRefusal?)?
    /// Where connections really go, when that is not the host.
    let resolve: (host: Host, port: UInt16)?
    /// Whether that is an address which has to be one of the host's own: its name is looked up before each dial.
    let checksResolve: Bool
    /// The proxy that connections go through.
    let proxy: SessionProxy?
    /// An HTTPS proxy as an endpoint of its own: what its certificate is held to. nil without one.
    package let proxyEndpoint: Endpoint?
    /// Whether requests go to the proxy, instead of through a tunnel. Only those without TLS do, for which no pin counts.
    let isForwarded: Bool
    /// The part of such a request's target before its path; empty elsewhere.
    let targetPrefix: [UInt8]
    /// The field with the credentials for such a proxy, with its CRLF; empty without.
    let proxyAuthorizationLine: [UInt8]
    /// How many connections to the host may be in use at a time; nil for the session's number.
    package let connectionLimit: Int?
    /// SHA-256 over `resolve`, `proxy` and settings of TLS that are not the default's, for what is kept; empty without.
    package let placeDigest: [UInt8]
    let digest = AtomicLazyReference<EndpointDigest>()
    /// The request's `Host` field with its CRLF: the port is left out where it is the scheme's own (RFC 9110, section 4.2).
    let hostLine: [UInt8]
    /// A hash of host and port with a seed of this process: a client cannot choose names that collide.
    let hostHash: UInt64

    /// Host and port, as in an authority.
    package var authorityText: String { host.authorityText(port: port) }

    /// Lets a connection go without TLS; nil for every endpoint but those with the scheme `http`.
    var plaintextPermission: PlaintextPermission? { scheme == .http ? PlaintextPermission() : nil }

    /// Whether connections to the other endpoint go to the same place by the same way. Policy and generation are the verdict's
    /// matter.
    func isSamePlace(as other: Endpoint) -> Bool {
        self === other
            || scheme == other.scheme && port == other.port && httpVersion == other.httpVersion && host == other.host
                && placeDigest == other.placeDigest
    }

    /// Whether connections are made to an HTTP proxy, with or without TLS.
    var hasHTTPProxy: Bool { proxy.map { $0.kind != .socks5 } ?? false }

    /// Whether connections are made through a SOCKS proxy.
    var hasSOCKSProxy: Bool { proxy?.kind == .socks5 }

    /// Whether there are pins for it, held to now or not.
    package var hasPins: Bool { scheme == .https && policy.hasPins }

    /// Whether pins decide now which keys are accepted, by `SecurityPolicy.isHeldToPins`.
    ///
    /// - Parameter now: seconds since 1970.
    package func isHeldToPins(at now: Int64) -> Bool { scheme == .https && policy.isHeldToPins(at: now) }

    /// - Parameters:
    ///   - resolve: a fixed host and port to connect to; the TLS name stays `host`.
    ///   - proxyPolicy: the policy for an HTTPS proxy.
    ///   - proxyTLS: the settings for TLS to an HTTPS proxy.
    ///   - checksResolve: whether `resolve`, an IP literal, has to be one of the addresses of the host's name.
    ///   - placeDigest: the digest of an endpoint with the same scheme, `resolve`, proxy and settings of TLS; nil when none is known.
    package init(
        scheme: Scheme,
        host: Host,
        port: UInt16,
        resolve: (host: Host, port: UInt16)? = nil,
        httpVersion: HTTPVersion = .http1,
        policy: SecurityPolicy,
        anchors: TrustAnchors,
        generation: UInt64,
        timeouts: TaskTimeouts = TaskTimeouts(),
        dialRule: (@Sendable (SocketAddress) -> DialRefusal?)? = nil,
        proxy: SessionProxy? = nil,
        proxyPolicy: SecurityPolicy = .unpinned,
        tls: TLSSettings = TLSSettings(),
        proxyTLS: TLSSettings = TLSSettings(),
        connectionLimit: Int? = nil,
        checksResolve: Bool = false,
        placeDigest: [UInt8]? = nil
    ) {
        self.scheme = scheme
        self.host = host
        self.port = port
        self.httpVersion = httpVersion
        self.policy = policy
        self.anchors = anchors
        self.generation = generation
        self.tls = tls
        self.timeouts = timeouts
        self.dialRule = dialRule
        self.resolve = resolve
        self.checksResolve = checksResolve
        self.proxy = proxy
        proxyEndpoint = proxy.flatMap { proxy in
            guard proxy.kind == .https else { return nil }
            return Endpoint(
                scheme: .https,
                host: proxy.host,
                port: proxy.port,
                policy: proxyPolicy,
                anchors: anchors,
                generation: generation,
                tls: proxyTLS
            )
        }
        self.connectionLimit = connectionLimit
        // Bytes, without a text in between: a client may name another host in each request.
        var line: [UInt8] = []
        line.reserveCapacity(host.bytes.count + 16)
        line.append(contentsOf: "Host: ".utf8)
        let start = line.count
        host.appendAuthority(to: &line)
        if port != (scheme == .https ? 443 : 80) { line += Array(":\(port)".utf8) }
        let end = line.count
        line.append(contentsOf: "\r\n".utf8)
        hostLine = line
        let isForwarding = proxy.map { $0.kind == .http && !$0.tunnelsPlainRequests } ?? false
        isForwarded = isForwarding && scheme == .http && resolve == nil
        targetPrefix = isForwarded ? Array("http://".utf8) + line[start..<end] : []
        proxyAuthorizationLine = isForwarded ? proxy?.authorizationLine ?? [] : []
        self.placeDigest =
            placeDigest
            ?? Endpoint.digest(
                resolve,
                proxy,
                isForwarded: isForwarded,
                tls: scheme == .https ? tls.digestText : "",
                proxyTLS: proxyEndpoint?.tls.digestText ?? ""
            )
        var hasher = Hasher()
        hasher.combine(host)
        hasher.combine(port)
        hostHash = UInt64(truncatingIfNeeded: hasher.finalize())
    }

    private static func digest(
        _ resolve: (host: Host, port: UInt16)?,
        _ proxy: SessionProxy?,
        isForwarded: Bool,
        tls: String,
        proxyTLS: String
    ) -> [UInt8] {
        guard resolve != nil || proxy != nil || !tls.isEmpty else { return [] }
        var text = tls.isEmpty ? "" : "tls\(tls) "
        if !proxyTLS.isEmpty { text += "proxy tls\(proxyTLS) " }
        if let resolve { text += "resolve \(resolve.host.authorityText(port: resolve.port)) " }
        if let proxy {
            text += "\(isForwarded ? "forwarding " : "")proxy \(proxy.kind) \(proxy.authorityText)"
            // A proxy may send one account elsewhere than another.
            if let (user, password) = proxy.credentials { text += " \(user.utf8.count) \(user) \(password)" }
        }
        return SecretDigest.sha256(Array(text.utf8))
    }
}

extension Endpoint {
    /// The same endpoint at an address that a client has connected to: it is dialled alone, if it is one of the host's own.
    package func at(_ address: IPAddress) -> Endpoint {
        Endpoint(
            scheme: scheme,
            host: host,
            port: port,
            resolve: (Host(address), port),
            httpVersion: httpVersion,
            policy: policy,
            anchors: anchors,
            generation: generation,
            timeouts: timeouts,
            dialRule: dialRule,
            proxy: proxy,
            proxyPolicy: proxyEndpoint?.policy ?? .unpinned,
            tls: tls,
            proxyTLS: proxyEndpoint?.tls ?? TLSSettings(),
            connectionLimit: connectionLimit,
            checksResolve: true
        )
    }

    /// The address that connections are made to, where that is a fixed one.
    package var fixedAddress: IPAddress? { resolve?.host.address }
}

extension Endpoint {
    /// The result of the trials for the profile that the server would need.
    var profileFinding: ProfileFinding {
        switch trial.load(ordering: .relaxed) {
        case 0: .unknown
        case 1: .none
        case let place: .needs(TLSProfile.allCases[Int(place) - 2])
        }
    }

    /// The profile that the server was found to need after a handshake has failed; nil when nothing was found.
    package var neededProfile: TLSProfile? {
        if case .needs(let profile) = profileFinding { profile } else { nil }
    }

    /// Whether the caller is to find it out. It is asked once of an endpoint: a server cannot make connections come to it at each
    /// request that it refuses.
    func beginsTrial() -> Bool {
        guard !tls.profile.wider.isEmpty, policy.configuration.lowestTLSVersion == .tls12 else { return false }
        return trial.compareExchange(expected: 0, desired: 1, ordering: .relaxed).exchanged
    }

    func endTrial(_ profile: TLSProfile?) {
        guard let profile, let place = TLSProfile.allCases.firstIndex(of: profile) else { return }
        trial.store(UInt8(place + 2), ordering: .relaxed)
    }
}

extension Endpoint {
    /// An endpoint for requests of a library's user.
    ///
    /// - Parameters:
    ///   - scheme: whether TLS is spoken.
    ///   - host: what the certificate has to be made out to.
    ///   - port: from 1 to 65535.
    ///   - resolve: a fixed host and port to connect to; the TLS name stays `host`.
    ///   - httpVersion: what is offered in the handshake.
    ///   - policy: what the certificate is held to; `.unpinned` for chain and host checks alone.
    ///   - anchors: where chains may end, unless the policy has anchors of its own.
    ///   - timeouts: of requests that have none of their own.
    ///   - proxy: what connections go through; nil for none. Its `exceptions` do not count here.
    ///   - proxyPolicy: what the certificate of an HTTPS proxy is held to; `.unpinned` for chain and host checks alone.
    ///   - tls: what handshakes offer and ask for.
    ///   - proxyTLS: the same for an HTTPS proxy.
    ///
    /// When policies change, make a new manager: connections stay with the one that made them.
    public convenience init(
        scheme: Scheme,
        host: Host,
        port: UInt16,
        resolve: (host: Host, port: UInt16)? = nil,
        httpVersion: HTTPVersion = .http1,
        policy: SecurityPolicy,
        anchors: TrustAnchors,
        timeouts: TaskTimeouts = TaskTimeouts(),
        proxy: SessionProxy? = nil,
        proxyPolicy: SecurityPolicy = .unpinned,
        tls: TLSSettings = TLSSettings(),
        proxyTLS: TLSSettings = TLSSettings()
    ) {
        self.init(
            scheme: scheme,
            host: host,
            port: port,
            resolve: resolve,
            httpVersion: httpVersion,
            policy: policy,
            anchors: anchors,
            generation: 0,
            timeouts: timeouts,
            dialRule: nil,
            proxy: proxy,
            proxyPolicy: proxyPolicy,
            tls: tls,
            proxyTLS: proxyTLS
        )
    }
}

/// Why an address may not be dialled.
package struct DialRefusal: Sendable {
    /// The rule's name, for people.
    package let rule: String

    package init(rule: String) { self.rule = rule }
}

/// The verdict on a connection without TLS: the route asks for plain HTTP. Only an `Endpoint` makes it.
struct PlaintextPermission {
    fileprivate init() {}
}
