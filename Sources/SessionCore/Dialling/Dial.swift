import CLibcurl
import CShims
import Glibc
import HTTPCore
import IOCore

/// One connection on its way to an endpoint. First its name is looked up, then libcurl connects. Owns libcurl's
/// easy handle until the connection stands or the dial fails; `Dialler` frees it with `destroy`.
final class Dial {
    enum Outcome {
        /// A connected, non-blocking socket, which belongs to the receiver.
        case connected(Int32)
        case failed(SessionError)
        /// The process has no descriptor left.
        case failedWithoutDescriptor(SessionError)
    }

    let endpoint: Endpoint
    /// Microseconds from the dial's start to the addresses of the name; 0 before.
    private(set) var lookupTime: Int64 = 0
    /// Microseconds from the dial's start to the connection, through a SOCKS proxy or to an HTTP proxy where there is one; 0 before.
    private(set) var connectionTime: Int64 = 0
    /// The address that was dialled last; nil while the name is looked up.
    private(set) var dialledAddress: SocketAddress?
    private(set) var easy: UnsafeMutableRawPointer?
    private unowned let dialler: Dialler
    private let errorText: UnsafeMutablePointer<CChar>
    /// The fixed place to connect to, which libcurl reads until the handle is freed (CURLOPT_CONNECT_TO(3)).
    private var connectTo: UnsafeMutablePointer<curl_slist>?
    /// The addresses of the name that is connected to (CURLOPT_RESOLVE(3)), as long as the handle.
    private var addresses: UnsafeMutablePointer<curl_slist>?
    private var zones = AddressZones([])
    /// The lookup that it waits for; nil once it has ended.
    var nameWait: NameWait?
    private var completion: ((Outcome) -> Void)?
    private let startedAt: UInt64
    /// Microseconds from the dial's start to that of libcurl's work.
    private var handleOffset: Int64 = 0
    private var refused: (address: SocketAddress, refusal: DialRefusal)?
    private var isDescriptorMissing = false

    /// The addresses that libcurl is given: `DNSLookup` keeps as many of both families.
    private static let addressLimit = 32

    init(_ endpoint: Endpoint, dialler: Dialler, _ completion: @escaping (Outcome) -> Void) {
        self.endpoint = endpoint
        self.dialler = dialler
        self.completion = completion
        startedAt = dialler.loop.freshNow
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
    }

    deinit {
        errorText.deallocate()
        curl_slist_free_all(connectTo)
        curl_slist_free_all(addresses)
    }

    // MARK: The name

    /// What libcurl connects to: the proxy, the fixed place, or the host.
    private var place: (host: Host, port: UInt16) {
        endpoint.proxy.map { ($0.host, $0.port) } ?? endpoint.resolve ?? (endpoint.host, endpoint.port)
    }

    /// The name that has to be looked up; nil for an address.
    var name: String? {
        let host = place.host
        return host.kind != .name ? nil : host.authorityText
    }

    func outcome(_ failure: NameFailure) -> Outcome {
        let error = NameError(failure: failure, name: place.host.authorityText, endpoint: endpoint).error
        return failure.reason == .withoutDescriptor ? .failedWithoutDescriptor(error) : .failed(error)
    }

    /// Makes the handle for libcurl.
    ///
    /// - Parameter found: the addresses of `name`; empty without one.
    /// - Returns: false when libcurl has no memory, or refuses an option.
    func prepare(_ found: [SocketAddress]) -> Bool {
        if !found.isEmpty {
            let found = found.prefix(Self.addressLimit)
            zones = AddressZones(found)
            let texts = found.map { address in
                // Without the port.
                address.description[..<address.description.lastIndex(of: ":")!]
            }
            let entry = "+\(place.host.authorityText):\(place.port):\(texts.joined(separator: ","))"
            addresses = curl_slist_append(nil, entry)
            guard addresses != nil else { return false }
            lookupTime = elapsed
        }
        handleOffset = elapsed
        easy = makeHandle()
        return easy != nil
    }

    private func makeHandle() -> UnsafeMutableRawPointer? {
        // libcurl makes no TLS: whatever is spoken later, the URL says http.
        let (host, port) = endpoint.hasHTTPProxy ? place : (endpoint.host, endpoint.port)
        let url = Array("http://\(host.authorityText):\(port)/".utf8CString)
        if let resolve = endpoint.resolve, !endpoint.hasHTTPProxy {
            connectTo = curl_slist_append(nil, "::\(resolve.host.authorityText):\(resolve.port)")
            guard connectTo != nil else { return nil }
        }
        var callbacks = pinproxy_dial_callbacks(
            open: { dial, address, length, family in
                guard let dial, let address else { return -1 }
                return Unmanaged<Dial>.fromOpaque(dial).takeUnretainedValue().open(address, length, family: family)
            },
            close: { dialler, descriptor in
                Unmanaged<Dialler>.fromOpaque(dialler!).takeUnretainedValue().closeSocket(descriptor)
                return 0
            }
        )
        func make(_ proxy: UnsafePointer<CChar>?, _ user: UnsafePointer<CChar>?, _ password: UnsafePointer<CChar>?)
            -> UnsafeMutableRawPointer?
        {
            url.withUnsafeBufferPointer { url in
                var target = pinproxy_dial_target(
                    url: url.baseAddress,
                    connect_to: connectTo,
                    resolve: addresses,
                    proxy: proxy,
                    proxy_user: user,
                    proxy_password: password
                )
                return pinproxy_dial_create(
                    &target,
                    &callbacks,
                    Unmanaged.passUnretained(self).toOpaque(),
                    Unmanaged.passUnretained(dialler).toOpaque(),
                    errorText
                )
            }
        }
        guard let proxy = endpoint.proxy, !endpoint.hasHTTPProxy else { return make(nil, nil, nil) }
        return ProxyStrings(proxy).lend(make)
    }

    /// Frees the handle, which is out of libcurl's multi handle.
    func destroy() {
        guard let freed = easy else { return }
        easy = nil
        pinproxy_dial_destroy(freed)
    }

    /// Enforces the address rules on the address that is really dialled.
    private func open(_ raw: UnsafeMutablePointer<sockaddr>, _ length: UInt32, family: Int32) -> Int32 {
        guard var address = SocketAddress(raw, length: length) else { return -1 }
        if let zoned = zones.removeAddress(like: address) {
            raw.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { $0.pointee.sin6_scope_id = zoned.scope }
            address = SocketAddress(ipv6Upper: zoned.upper, lower: zoned.lower, port: address.port, scope: zoned.scope)
        }
        if let refusal = endpoint.dialRule?(address) {
            refused = (address, refusal)
            return -1
        }
        if dialledAddress == nil { lookupTime = elapsed }
        dialledAddress = address
        let descriptor = dialler.open(family: family)
        if descriptor < 0 { isDescriptorMissing = [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(-descriptor) }
        return max(descriptor, -1)
    }

    private var elapsed: Int64 { Int64((dialler.loop.freshNow &- startedAt) / 1000) }

    // MARK: The end

    /// Reads what the handle knows, as long as it is there.
    func outcome(_ result: CURLcode, adopting descriptor: Int32?) -> Outcome {
        if let easy, result == CURLE_OK {
            pinproxy_dial_times(easy, &lookupTime, &connectionTime)
            lookupTime += handleOffset
            connectionTime += handleOffset
        }
        if let descriptor { return .connected(descriptor) }
        let error = DialFailure(
            result: result,
            details: String(cString: errorText),
            endpoint: endpoint,
            refused: refused
        ).error
        return isDescriptorMissing && refused == nil ? .failedWithoutDescriptor(error) : .failed(error)
    }

    func complete(_ outcome: Outcome) {
        let completion = completion
        self.completion = nil
        completion?(outcome)
    }
}

/// A SOCKS proxy as libcurl reads it (CURLOPT_PROXY(3)).
private struct ProxyStrings {
    private let url: [CChar]
    private let credentials: (user: [CChar], password: [CChar])?

    init(_ proxy: SessionProxy) {
        // With the h the proxy looks up the names.
        url = Array("socks5h://\(proxy.host.authorityText):\(proxy.port)".utf8CString)
        credentials = proxy.credentials.map { (Array($0.user.utf8CString), Array($0.password.utf8CString)) }
    }

    /// Lends the URL, the user and the password for the length of the call.
    func lend<Result>(
        _ body: (UnsafePointer<CChar>?, UnsafePointer<CChar>?, UnsafePointer<CChar>?) -> Result
    ) -> Result {
        url.withUnsafeBufferPointer { url in
            guard let credentials else { return body(url.baseAddress, nil, nil) }
            return credentials.user.withUnsafeBufferPointer { user in
                credentials.password.withUnsafeBufferPointer { body(url.baseAddress, user.baseAddress, $0.baseAddress) }
            }
        }
    }
}
