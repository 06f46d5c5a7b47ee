// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

extension ConfigurationReader {
    /// The longest path that `sockaddr_un` holds (unix(7)).
    private static let longestSocketPath = 107

    mutating func readListeners(_ element: DocumentElement) {
        guard let elements = element.elements() else { return }
        if elements.isEmpty {
            element.report("there is no listener", remedy: "add one: { \"address\": \"127.0.0.1:8080\" }")
            return
        }
        for element in elements {
            guard let object = element.object(), let listener = readListener(object) else { continue }
            if let first = listeners.first(where: { Self.collide($0.value.endpoint, listener.endpoint) }) {
                element.report(
                    "listens where \(first.element.pointer) does (\(first.value.endpoint))",
                    remedy: "take one of them out, or change its \(listener.endpoint.isUnixSocket ? "path" : "port")"
                )
            }
            listeners.append(Placed(value: listener, element: element))
        }
        configuration.listeners = listeners.map(\.value)
    }

    private mutating func readListener(_ object: DocumentObject) -> ListenerConfiguration? {
        comment(object)
        let endpoint = readEndpoint(object, example: "127.0.0.1:8080")
        let mode = object["mode"].map { $0.choice(ListenerConfiguration.Mode.self) } ?? .forward
        let allowHosts = object["allowHosts"]
        let allowedHosts = object["allowedHosts"]
        let upstreamElement = object["upstream"]
        let upstream = upstreamElement.flatMap(readUpstream)
        let http2 = object["http2"]?.bool() ?? false
        let allowRemoteClients = object["allowRemoteClients"]
        let originalDestination = object["originalDestination"]
        var listener = ListenerConfiguration(
            endpoint: endpoint ?? .unixSocket(path: ""),
            mode: mode ?? .forward,
            upstream: upstream,
            http2: http2,
            allowRemoteClients: allowRemoteClients?.bool() ?? false
        )
        if let patterns = allowHosts?.allowingHostPatterns() { listener.allowHosts = HostPatternSet(patterns) }
        if let elements = allowedHosts?.elements() {
            listener.allowedHosts = elements.compactMap { element in
                element.string().flatMap { HostName.read($0, on: element) }
            }
        }
        switch mode {
        case .gateway:
            if upstreamElement == nil {
                object.element.report(
                    "a gateway without upstream",
                    remedy: "add \"upstream\": \"https://…\", or let mode be \"forward\""
                )
            }
            allowHosts?.report(
                "a gateway has one host, its upstream",
                remedy: "take it out; \"allowedHosts\" lists further names that clients may send in Host"
            )
        case .forward:
            upstreamElement?.report(
                "a forward listener has no upstream",
                remedy: "let mode be \"gateway\", or take it out"
            )
            allowedHosts?.report(
                "only a gateway has names of its own",
                remedy: "take it out; \"allowHosts\" lists what clients of a forward listener may ask for"
            )
        case .transparent:
            upstreamElement?.report(
                "a transparent listener has no upstream: its clients name the host",
                remedy: "take it out"
            )
            allowedHosts?.report(
                "only a gateway has names of its own",
                remedy: "take it out; \"allowHosts\" lists the hosts that clients may reach through this listener"
            )
            checkTransparent(object)
        case nil:
            break
        }
        if let choice = originalDestination?.choice(ListenerConfiguration.OriginalDestination.self) {
            listener.originalDestination = choice
        }
        if mode != nil, mode != .transparent {
            originalDestination?.report(
                "only the connections of a transparent listener have an original destination",
                remedy: "let mode be \"transparent\", or take it out"
            )
        }
        if let upstream, let upstreamElement, mode == .gateway {
            upstreams.append(Placed(value: upstream, element: upstreamElement))
        }
        checkReach(
            endpoint,
            object,
            isAllowed: listener.allowRemoteClients,
            by: allowRemoteClients,
            danger: "use the proxy"
        )
        listener.tls = object["tls"].flatMap { readTLS($0) }
        if let element = object["authentication"] { listener.authentication = readListenerAuthentication(element) }
        listener.allowCleartextCredentials = object.bool("allowCleartextCredentials") ?? false
        object.finish()
        return endpoint == nil || mode == nil ? nil : listener
    }

    /// Refuses members that mean nothing to clients that know of no proxy.
    private func checkTransparent(_ object: DocumentObject) {
        object["unixSocket"]?.report(
            "the kernel redirects connections to an address and a port",
            remedy: "write \"address\": \"127.0.0.1:15001\""
        )
        object["tls"]?.report(
            "the TLS of a redirected client is that of its server",
            remedy: "take it out; \"connect\" of a host says whether it is intercepted"
        )
        object["allowCleartextCredentials"]?.report(
            "no credentials are sent to a transparent listener",
            remedy: "take it out"
        )
    }

    /// Reads the address of a listener: `address` or `unixSocket`.
    func readEndpoint(_ object: DocumentObject, example: String) -> ListenerConfiguration.Endpoint? {
        let address = object["address"]
        let unixSocket = object["unixSocket"]
        switch (address, unixSocket) {
        case (nil, nil):
            object.element.report(
                "says not where to listen",
                remedy: "add \"address\": \"\(example)\" or \"unixSocket\": \"…\""
            )
            return nil
        case (_?, let unixSocket?):
            unixSocket.report("beside \"address\"", remedy: "make it two listeners, or take one of the two out")
            return nil
        case (let address?, nil):
            return address.addressAndPort(allowsFreePort: true).map { .address($0) }
        case (nil, let unixSocket?):
            guard let path = unixSocket.path() else { return nil }
            guard path.utf8.count <= Self.longestSocketPath else {
                unixSocket.report(
                    "longer than the \(Self.longestSocketPath) bytes that a socket's path may have",
                    remedy: "choose a shorter path"
                )
                return nil
            }
            return .unixSocket(path: path)
        }
    }

    /// Checks that a listener that other machines can reach is intended: every client that reaches a listener can use
    /// it.
    func checkReach(
        _ endpoint: ListenerConfiguration.Endpoint?,
        _ object: DocumentObject,
        isAllowed: Bool,
        by allowRemoteClients: DocumentElement?,
        danger: String
    ) {
        switch endpoint {
        case .address(let address) where !address.address.isLoopback && !isAllowed:
            object["address"]?.report(
                "\(address.address) is not a loopback address: others than this machine could \(danger)",
                remedy: "listen on 127.0.0.1 or [::1], or add \"allowRemoteClients\": true if that is meant"
            )
        case .unixSocket where isAllowed:
            allowRemoteClients?.report("no remote client reaches a Unix socket", remedy: "take it out")
        default:
            break
        }
    }

    /// `https://host`, `https://host:port`.
    private func readUpstream(_ element: DocumentElement) -> ListenerConfiguration.Upstream? {
        guard let text = element.string() else { return nil }
        guard let schemeEnd = text.utf8.firstIndex(of: UInt8(ascii: ":")), text[schemeEnd...].hasPrefix("://") else {
            element.report("not an https URL", remedy: "write it as in https://api.example.com")
            return nil
        }
        guard text[..<schemeEnd].lowercased() == "https" else {
            element.report(
                "a gateway reaches its upstream over TLS only",
                remedy: "write https://…; an origin without TLS needs no gateway"
            )
            return nil
        }
        var rest = text[schemeEnd...].dropFirst(3)
        if rest.last == "/" { rest.removeLast() }
        guard !rest.contains(where: { "/?#@\\".contains($0) }) else {
            element.report(
                "more than scheme, host and port",
                remedy: "take userinfo, path and query out; the client's request has the path"
            )
            return nil
        }
        var port: UInt16 = 443
        // A colon inside brackets, closed or not, belongs to the address.
        let literalEnd = rest.hasPrefix("[") ? rest.firstIndex(of: "]") ?? rest.endIndex : rest.startIndex
        if let colon = rest[literalEnd...].lastIndex(of: ":") {
            guard let number = AddressAndPort.port(Array(rest[colon...].dropFirst().utf8)[...]), number != 0 else {
                element.report("not a port", remedy: "write a port from 1 to 65535")
                return nil
            }
            port = number
            rest = rest[..<colon]
        }
        return HostName.read(String(rest), on: element).map { ListenerConfiguration.Upstream(host: $0, port: port) }
    }

    static func collide(_ one: ListenerConfiguration.Endpoint, _ other: ListenerConfiguration.Endpoint) -> Bool {
        switch (one, other) {
        case (.unixSocket(let one), .unixSocket(let other)):
            return one == other
        case (.address(let one), .address(let other)):
            guard one.port == other.port, one.port != 0, one.address.isIPv4 == other.address.isIPv4 else {
                return false
            }
            return one.address == other.address || one.address.isUnspecified || other.address.isUnspecified
        default:
            return false
        }
    }
}

extension ListenerConfiguration.Endpoint {
    package var isUnixSocket: Bool {
        if case .unixSocket = self { return true }
        return false
    }
}
