import IOCore

/// The zones of link-local addresses, which libcurl's list of addresses (CURLOPT_RESOLVE(3)) has no form for.
struct AddressZones {
    private var addresses: [SocketAddress]

    /// - Parameter addresses: those of a name; without a zone they do not count.
    init(_ addresses: some Sequence<SocketAddress>) { self.addresses = addresses.filter { $0.scope != 0 } }

    /// The same address with its zone, each one once: there may be one address in two zones.
    mutating func removeAddress(like address: SocketAddress) -> SocketAddress? {
        guard address.family == .ipv6 else { return nil }
        let index = addresses.firstIndex { $0.upper == address.upper && $0.lower == address.lower }
        return index.map { addresses.remove(at: $0) }
    }
}
