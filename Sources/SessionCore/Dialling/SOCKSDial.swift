// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import HTTPCore
import IOCore

/// The dial of a SOCKS proxy's address, and the way through it, which is libcurl's work. Owns libcurl's easy handle until the way
/// stands or the dial fails; `SOCKSDialler` frees it with `destroy`.
final class SOCKSDial: AddressDial {
    private(set) var easy: UnsafeMutableRawPointer?
    private unowned let socks: SOCKSDialler
    private let errorText: UnsafeMutablePointer<CChar>

    init(
        _ address: SocketAddress,
        for endpoint: Endpoint,
        socks: SOCKSDialler,
        didEnd: @escaping (AddressDial, Outcome) -> Void
    ) {
        self.socks = socks
        errorText = .allocate(capacity: Int(PINPROXY_SOCKS_ERROR_SIZE))
        errorText.initialize(repeating: 0, count: Int(PINPROXY_SOCKS_ERROR_SIZE))
        super.init(address, for: endpoint, loop: socks.loop, didEnd: didEnd)
    }

    deinit { errorText.deallocate() }

    override func start() -> DialFailure? {
        if let fault = SOCKSLibrary.load() { return failure(.noLibrary, "\(fault); \(SOCKSLibrary.remedy)") }
        return socks.start(self) ? nil : .withoutMemory(endpoint)
    }

    override func stop() {
        super.stop()
        socks.cancel(self)
    }

    /// Makes the handle for libcurl.
    ///
    /// - Returns: false when libcurl has no memory, or refuses an option.
    func prepare() -> Bool {
        guard let proxy = endpoint.proxy else { return false }
        let (host, port) = endpoint.resolve ?? (endpoint.host, endpoint.port)
        // With the h the proxy looks up the names. libcurl makes no TLS: whatever is spoken later, the URL says http.
        let texts = ["http://\(host.authorityText(port: port))/", "socks5h://\(address)"]
        let credentials = proxy.credentials.map { [$0.user, $0.password] } ?? []
        let owned = (texts + credentials).map { strdup($0) }
        defer { for text in owned { free(text) } }
        var target = pinproxy_socks_target(
            url: owned[0],
            proxy: owned[1],
            user: owned.count > 2 ? owned[2] : nil,
            password: owned.count > 2 ? owned[3] : nil
        )
        easy = pinproxy_socks_create(
            &target,
            { dial, address, length in
                guard let dial, let address else { return -1 }
                return Unmanaged<SOCKSDial>.fromOpaque(dial).takeUnretainedValue().openSocket(address, length)
            },
            Unmanaged.passUnretained(self).toOpaque(),
            { dialler, descriptor in
                Unmanaged<SOCKSDialler>.fromOpaque(dialler!).takeUnretainedValue().closeSocket(descriptor)
                return 0
            },
            Unmanaged.passUnretained(socks).toOpaque(),
            errorText
        )
        return easy != nil
    }

    /// Frees the handle, which is out of libcurl's multi handle.
    func destroy() {
        guard let freed = easy else { return }
        easy = nil
        pinproxy_socks_destroy(freed)
    }

    private func openSocket(_ raw: UnsafeMutablePointer<sockaddr>, _ length: UInt32) -> Int32 {
        // libcurl has got the address as text, which has no form for a zone.
        if address.scope != 0, Int32(raw.pointee.sa_family) == AF_INET6 {
            raw.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { $0.pointee.sin6_scope_id = address.scope }
        }
        let descriptor = open(raw, length)
        guard descriptor >= 0 else { return -1 }
        socks.remember(descriptor)
        return descriptor
    }

    /// The result of the dial, as long as the handle is there.
    ///
    /// - Parameter result: libcurl's.
    func outcome(_ result: Int32, adopting descriptor: Int32?) -> Outcome {
        if let descriptor { return .connected(descriptor, to: peerAddress(descriptor)) }
        let words = String(cString: errorText)
        let cause = DialFailure.Cause(pinproxy_socks_end_of(result))
        return .failed(failure(cause, words.isEmpty ? String(cString: pinproxy_socks_words(result)) : words))
    }
}

extension DialFailure.Cause {
    /// - Parameter end: of a dial that has failed.
    init(_ end: pinproxy_socks_end) {
        self =
            switch end {
            case PINPROXY_SOCKS_NO_CONNECTION: .noConnection
            case PINPROXY_SOCKS_REFUSED_BY_PROXY: .refusedByProxy
            case PINPROXY_SOCKS_UNKNOWN_HOST: .unknownHost
            case PINPROXY_SOCKS_UNKNOWN_PROXY: .unknownProxy
            case PINPROXY_SOCKS_NO_MEMORY: .noMemory
            default: .other
            }
    }
}
