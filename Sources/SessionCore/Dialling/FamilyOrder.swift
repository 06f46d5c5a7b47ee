// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Which of a name's two families is tried first: RFC 6724, section 6, rules 1, 2, 5 and 6, for the first address of each.
/// Within a family they stay as the name server has put them, which is how it spreads its load: to sort them would take a socket
/// for each.
enum FamilyOrder {
    /// All addresses, the best family first.
    static func sorted(
        ipv4: [SocketAddress],
        ipv6: [SocketAddress],
        source: (SocketAddress) -> SocketAddress?
    ) -> [SocketAddress] {
        guard let firstIPv4 = ipv4.first, let firstIPv6 = ipv6.first else { return ipv4 + ipv6 }
        return isIPv6First(firstIPv6, before: firstIPv4, source: source) ? ipv6 + ipv4 : ipv4 + ipv6
    }

    /// - Parameter source: the address from which a destination would be connected to; nil without a route.
    static func isIPv6First(
        _ ipv6: SocketAddress,
        before ipv4: SocketAddress,
        source: (SocketAddress) -> SocketAddress?
    ) -> Bool {
        let (destination, ipv4Class) = (AddressClass(ipv6), AddressClass(ipv4))
        let (ipv6Source, ipv4Source) = (source(ipv6), source(ipv4))
        if (ipv6Source == nil) != (ipv4Source == nil) { return ipv6Source != nil }
        if let ipv6Source, let ipv4Source {
            let isIPv6Alike = AddressClass(ipv6Source).isLinkLocal == destination.isLinkLocal
            let isIPv4Alike = AddressClass(ipv4Source).isLinkLocal == ipv4Class.isLinkLocal
            if isIPv6Alike != isIPv4Alike { return isIPv6Alike }
        }
        // IPv4 addresses have one label.
        if let ipv6Source, AddressClass(ipv6Source).label != destination.label { return false }
        return destination.precedence > ipv4Class.precedence
    }
}

/// A row of RFC 6724's default table (section 2.1).
private struct AddressClass {
    let precedence: Int
    let label: Int
    /// The scope (section 3.1): site-local addresses are deprecated.
    let isLinkLocal: Bool

    init(_ address: SocketAddress) {
        let (upper, lower) = (address.upper, address.lower)
        isLinkLocal =
            switch upper >> 48 {
            case 0xA9FE, 0x7F00...0x7FFF: address.family == .ipv4
            case 0: address.family == .ipv6 && lower == 1
            case 0xFE80...0xFEBF: address.family == .ipv6
            default: false
            }
        (precedence, label) =
            switch (upper >> 48, upper) {
            case _ where address.family == .ipv4: (35, 4)
            case (0, 0) where lower == 1: (50, 0)
            case (0, 0) where lower >> 32 == 0xFFFF: (35, 4)
            case (0, 0) where lower >> 32 == 0: (1, 3)
            case (0x2002, _): (30, 2)
            case (0x2001, _) where upper >> 32 == 0x2001_0000: (5, 5)
            case (0xFC00...0xFDFF, _): (3, 13)
            case (0xFEC0...0xFEFF, _): (1, 11)
            case (0x3FFE, _): (1, 12)
            default: (40, 1)
            }
    }
}
