// SPDX-License-Identifier: Apache-2.0
import CLibcurl
import CShims
import Glibc
import HTTPCore
import IOCore

/// The dial of one address, which is libcurl's work: TCP, and behind it the way through a SOCKS proxy. Owns libcurl's easy handle
/// until the connection stands or the dial fails; `Dialler` frees it with `destroy`.
final class AddressDial {
    enum Outcome {
        /// A connected, non-blocking socket, which belongs to the receiver.
        case connected(Int32)
        case failed(DialFailure)
    }

    let address: SocketAddress
    /// The owner, which is told of the end; nil when it does not wait any more.
    var dial: Dial?
    private(set) var easy: UnsafeMutableRawPointer?
    private let endpoint: Endpoint
    private unowned let dialler: Dialler
    private let errorText: UnsafeMutablePointer<CChar>
    private var refusal: DialRefusal?
    private var isDescriptorMissing = false

    init(_ address: SocketAddress, of dial: Dial, dialler: Dialler) {
        self.address = address
        self.dial = dial
        endpoint = dial.endpoint
        self.dialler = dialler
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
    }

    deinit { errorText.deallocate() }

    /// Makes the handle for libcurl.
    ///
    /// - Returns: false when libcurl has no memory, or refuses an option.
    func prepare() -> Bool {
        var callbacks = pinproxy_dial_callbacks(
            open: { dial, address, length, family in
                guard let dial, let address else { return -1 }
                return Unmanaged<AddressDial>.fromOpaque(dial).takeUnretainedValue()
                    .open(address, length, family: family)
            },
            close: { dialler, descriptor in
                Unmanaged<Dialler>.fromOpaque(dialler!).takeUnretainedValue().closeSocket(descriptor)
                return 0
            }
        )
        func make(
            _ authority: String,
            _ proxy: UnsafePointer<CChar>? = nil,
            _ user: UnsafePointer<CChar>? = nil,
            _ password: UnsafePointer<CChar>? = nil
        ) -> UnsafeMutableRawPointer? {
            // libcurl makes no TLS: whatever is spoken later, the URL says http.
            "http://\(authority)/".withCString { url in
                var target = pinproxy_dial_target(url: url, proxy: proxy, proxy_user: user, proxy_password: password)
                return pinproxy_dial_create(
                    &target,
                    &callbacks,
                    Unmanaged.passUnretained(self).toOpaque(),
                    Unmanaged.passUnretained(dialler).toOpaque(),
                    errorText
                )
            }
        }
        guard let proxy = endpoint.proxy, !endpoint.hasHTTPProxy else {
            easy = make(address.description)
            return easy != nil
        }
        let (host, port) = endpoint.resolve ?? (endpoint.host, endpoint.port)
        easy = ProxyStrings(address, proxy).lend { make(host.authorityText(port: port), $0, $1, $2) }
        return easy != nil
    }

    /// Frees the handle, which is out of libcurl's multi handle.
    func destroy() {
        guard let freed = easy else { return }
        easy = nil
        pinproxy_dial_destroy(freed)
    }

    /// Enforces the address rules on the address that is really dialled.
    private func open(_ raw: UnsafeMutablePointer<sockaddr>, _ length: UInt32, family: Int32) -> Int32 {
        // libcurl has got the address as text, which has no form for a zone.
        if address.scope != 0, Int32(raw.pointee.sa_family) == AF_INET6 {
            raw.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { $0.pointee.sin6_scope_id = address.scope }
        }
        guard let dialled = SocketAddress(raw, length: length) else { return -1 }
        refusal = endpoint.dialRule?(dialled)
        guard refusal == nil else { return -1 }
        let descriptor = dialler.open(family: family)
        if descriptor < 0 { isDescriptorMissing = [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(-descriptor) }
        return max(descriptor, -1)
    }

    /// The result of the dial, as long as the handle is there.
    func outcome(_ result: CURLcode, adopting descriptor: Int32?) -> Outcome {
        if let descriptor { return .connected(descriptor) }
        return .failed(
            DialFailure(
                result: result,
                details: String(cString: errorText),
                endpoint: endpoint,
                refused: refusal.map { (address, $0) },
                isDescriptorMissing: isDescriptorMissing
            )
        )
    }
}

/// A SOCKS proxy as libcurl reads it (CURLOPT_PROXY(3)).
private struct ProxyStrings {
    private let url: [CChar]
    private let credentials: (user: [CChar], password: [CChar])?

    init(_ address: SocketAddress, _ proxy: SessionProxy) {
        // With the h the proxy looks up the names.
        url = Array("socks5h://\(address)".utf8CString)
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
