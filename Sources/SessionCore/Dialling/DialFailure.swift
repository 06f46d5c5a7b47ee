// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore

/// Why the dial of an address has failed.
struct DialFailure {
    enum Cause: CaseIterable {
        /// There is no connection to the address.
        case noConnection
        /// A SOCKS proxy makes no way to the host.
        case refusedByProxy
        case unknownHost, unknownProxy
        /// This process has no memory, or lacks the library that speaks SOCKS.
        case noMemory, noLibrary
        case other
    }

    /// Whether what failed is a descriptor, or memory of the kernel, which a dial needs whatever the address is.
    ///
    /// Not EADDRNOTAVAIL: the system has no local port left for this address, or no address of its family.
    ///
    /// - Parameter code: the error of socket(2), connect(2) or epoll_ctl(2).
    static func isOfDescriptors(_ code: Int32) -> Bool {
        [EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC].contains(code)
    }

    let cause: Cause
    /// For people.
    private(set) var details: String
    let endpoint: Endpoint
    /// The address that the address rules have refused.
    var refused: (address: SocketAddress, refusal: DialRefusal)?
    /// To close an idle connection may help.
    var isDescriptorMissing = false

    /// So many addresses are told of; there may be thirty.
    private static let toldAddresses = 4

    static func withoutMemory(_ endpoint: Endpoint) -> DialFailure {
        DialFailure(cause: .noMemory, details: "Out of memory", endpoint: endpoint)
    }

    /// Whether it is the address that has failed, rather than this process or machine.
    var isItsOwn: Bool { refused == nil && !isDescriptorMissing && cause != .noMemory && cause != .noLibrary }

    /// That of a dial all of whose addresses have failed; nil when there was none.
    static func sum(of failures: [DialFailure]) -> DialFailure? {
        // That one of them may not be dialled is what its owner can change.
        if let refused = failures.first(where: { $0.refused != nil }) { return refused }
        guard var last = failures.last else { return nil }
        if failures.count > 1 {
            let untold = failures.count - toldAddresses
            last.details =
                failures.prefix(toldAddresses).map(\.words).joined(separator: "; ")
                + (untold > 0 ? "; and \(untold) addresses more" : "")
        }
        last.isDescriptorMissing = failures.contains(where: \.isDescriptorMissing)
        return last
    }

    var error: SessionError {
        if let refused {
            let (address, rule) = (refused.address, refused.refusal.rule)
            return SessionError(
                .addressDenied,
                endpoint.proxy != nil
                    ? "The proxy is at \(address), which may not be dialled: \(rule). "
                        + "Name the proxy by that address if it should be, or change access.denyAddresses."
                    : "\(endpoint.host) is at \(address), which may not be dialled: \(rule). "
                        + "Change access.denyAddresses if it should be, or give the host this address as its \"resolve\"."
            )
        }
        switch cause {
        case .unknownHost:
            return SessionError(
                .dnsFailed,
                "\(endpoint.host) has no address: \(words). Check the name, or give the host a \"resolve\" address."
            )
        case .unknownProxy:
            return SessionError(.dnsFailed, "The upstream proxy has no address: \(words). Check its name.")
        case .refusedByProxy:
            return SessionError(.proxyRefused, "The upstream proxy makes no way to \(authority): \(words).")
        case .noConnection where endpoint.proxy != nil:
            return SessionError(.connectFailed, "The upstream proxy could not be reached: \(words).")
        case .noLibrary:
            return SessionError(.internal, "There is no way through the upstream proxy: \(words).")
        case .noConnection, .noMemory, .other:
            return SessionError(.connectFailed, "\(authority) could not be reached: \(words).")
        }
    }

    private var authority: String { endpoint.authorityText }

    private var words: String {
        var text = details
        while text.hasSuffix(".") || text.hasSuffix("\n") { text.removeLast() }
        return text
    }
}

/// The meaning of a failed name lookup for a dial.
struct NameError {
    let failure: NameFailure
    /// The name that was looked up: the host's, its `resolve`'s or the proxy's.
    let name: String
    let endpoint: Endpoint

    var error: SessionError {
        let subject = isOfProxy ? "The upstream proxy \(name)" : name
        switch failure.reason {
        case .unknown:
            return SessionError(.dnsFailed, "\(subject) has no address: \(failure.words). Check \(remedy).")
        case .silent:
            return SessionError(
                .dnsTimeout,
                "\(subject) could not be looked up: no name server has responded. Check the name servers, or \(remedy)."
            )
        case .withoutDescriptor, .failed:
            return SessionError(
                .dnsFailed,
                "\(subject) could not be looked up: \(failure.words). Check the name servers, or \(remedy)."
            )
        }
    }

    /// The name of the host is looked up beside that of the proxy where the address has to be one of its own.
    private var isOfProxy: Bool {
        endpoint.proxy != nil && !(endpoint.checksResolve && name == endpoint.host.authorityText)
    }

    private var remedy: String {
        if isOfProxy { return "the proxy's name" }
        if endpoint.resolve != nil, !endpoint.checksResolve { return "the host's \"resolve\"" }
        return failure.reason == .unknown
            ? "the name, or give the host a \"resolve\" address" : "give the host a \"resolve\" address"
    }
}

extension SocketAddress {
    /// The address alone; nil for a Unix socket.
    var ipAddress: IPAddress? {
        switch family {
        case .ipv4: IPAddress(ipv4: ipv4)
        case .ipv6: IPAddress(ipv6High: upper, low: lower)
        case .unix: nil
        }
    }
}

extension SessionError {
    /// The error of a dial to an address that is none of the host's own.
    static func misdirected(_ endpoint: Endpoint, found addresses: [SocketAddress]) -> SessionError {
        let told = addresses.prefix(4).compactMap(\.ipAddress).map(\.description).joined(separator: ", ")
        let more = addresses.count > 4 ? " and others" : ""
        var error = SessionError(
            .addressDenied,
            "The client has connected to \(endpoint.fixedAddress?.description ?? "no address"), which is none of the addresses of \(endpoint.host) that this machine finds (\(told)\(more)). Let client and proxy use the same name servers, or let the listener have \"originalDestination\": \"ignore\"."
        )
        error.isMisdirected = true
        return error
    }
}
