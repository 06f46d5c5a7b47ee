package import HTTPCore

/// A named set of addresses that a rule can deny as one.
package enum AddressGroup: String, CaseIterable, Sendable {
    case loopback
    case linkLocal = "link-local"
    /// Where cloud machines find their credentials.
    case metadata
    case multicast
    case unspecified
    case `private`
    case cgnat

    /// What `denyAddresses` is when a configuration does not say.
    package static var deniedByDefault: [AddressGroup] {
        [.loopback, .linkLocal, .metadata, .multicast, .unspecified]
    }

    /// The group's blocks: IANA special-purpose registries (RFC 6890 and its updates), and the metadata addresses of
    /// AWS and most others, AWS over IPv6, Alibaba and Azure.
    var blocks: [AddressBlock] {
        let texts: [StaticString] =
            switch self {
            case .loopback: ["127.0.0.0/8", "::1/128"]
            case .linkLocal: ["169.254.0.0/16", "fe80::/10"]
            case .metadata: ["169.254.169.254/32", "fd00:ec2::254/128", "100.100.100.200/32", "168.63.129.16/32"]
            case .multicast: ["224.0.0.0/4", "ff00::/8"]
            case .unspecified: ["0.0.0.0/8", "::/128"]
            case .private: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"]
            case .cgnat: ["100.64.0.0/10"]
            }
        return texts.compactMap { try? AddressBlock(parsing: $0.description) }
    }
}

/// A CIDR block of either family.
package struct AddressBlock: Hashable, Sendable {
    package let address: IPAddress
    package let prefixLength: Int

    package enum Fault: Error, Hashable, Sendable {
        case notAnAddress
        case prefixInvalid
        /// Bits are set behind the prefix: a slip of the hand more often than a wish. The block that was perhaps meant.
        case hostBitsSet(String)
        /// A v4-mapped block: addresses of that kind are judged as the IPv4 address they embed.
        case mappedIPv4
    }

    /// Reads `10.0.0.0/8`, `fc00::/7`, or one address alone.
    package init(parsing text: String) throws(Fault) {
        let bytes = text.utf8
        let slash = bytes.firstIndex(of: UInt8(ascii: "/"))
        guard let address = IPAddress(String(text[..<(slash ?? text.endIndex)])) else { throw .notAnAddress }
        let width = address.isIPv4 ? 32 : 128
        var prefixLength = width
        if let slash {
            let digits = Array(bytes[bytes.index(after: slash)...])
            guard let number = AddressAndPort.port(digits[...]), Int(number) <= width else { throw .prefixInvalid }
            prefixLength = Int(number)
        }
        if address.isMapped, prefixLength >= 96 { throw .mappedIPv4 }
        let first = address.masked(prefixLength)
        if first != address { throw .hostBitsSet("\(first)/\(prefixLength)") }
        self.address = address
        self.prefixLength = prefixLength
    }

    package func contains(_ candidate: IPAddress) -> Bool {
        candidate.hasPrefix(of: address, length: prefixLength)
    }
}

extension AddressBlock: CustomStringConvertible {
    package var description: String { "\(address)/\(prefixLength)" }
}

/// One entry of `denyAddresses`.
package enum AddressRule: Hashable, Sendable, CustomStringConvertible {
    case group(AddressGroup)
    case block(AddressBlock)

    package var description: String {
        switch self {
        case .group(let group): group.rawValue
        case .block(let block): block.description
        }
    }

    var blocks: [AddressBlock] {
        switch self {
        case .group(let group): group.blocks
        case .block(let block): [block]
        }
    }
}

/// Which addresses may be dialled, compiled for the request path: judging an address compares integers and allocates
/// nothing.
///
/// An address that embeds an IPv4 address (v4-mapped, v4-compatible, NAT64, 6to4) is judged as itself and as that IPv4
/// address: what either is denied, it is denied.
package struct AddressRules: Sendable {
    package enum Verdict: Hashable, Sendable {
        case allowed
        /// By the entry of `denyAddresses` at this index; `rules` has its text.
        case denied(rule: Int)
        /// The address is one of this program's own listeners.
        case deniedOwnListener
    }

    /// The entries of `denyAddresses`.
    package let rules: [AddressRule]
    /// Where this program listens. A wildcard address stands for every address of this machine that is known to be
    /// one: loopback, the unspecified address itself, and `localAddresses`.
    package let ownListeners: [AddressAndPort]
    package let localAddresses: [IPAddress]

    private let blocks: [CompiledBlock]
    private let own: [AddressAndPort]
    private let local: [IPAddress]

    package init(
        denying rules: [AddressRule],
        ownListeners: [AddressAndPort] = [],
        localAddresses: [IPAddress] = []
    ) {
        self.rules = rules
        self.ownListeners = ownListeners
        self.localAddresses = localAddresses
        blocks = rules.enumerated().flatMap { index, rule in
            rule.blocks.map { CompiledBlock(block: $0, rule: Int32(index)) }
        }
        own = ownListeners.map { AddressAndPort($0.address.plain, $0.port) }
        local = localAddresses.map(\.plain)
    }

    /// The same rules with this program's listeners, known once they are bound.
    package func with(ownListeners: [AddressAndPort], localAddresses: [IPAddress]) -> AddressRules {
        AddressRules(denying: rules, ownListeners: ownListeners, localAddresses: localAddresses)
    }

    /// Whether a connection to `address` may be opened.
    ///
    /// `exemption` is the exact address and port of the request's own `resolve`, or of the IP literal in its gateway's
    /// `upstream`; it goes before every rule but the one on our own listeners.
    package func judge(_ address: IPAddress, port: UInt16, exempting exemption: AddressAndPort? = nil) -> Verdict {
        let plain = address.plain
        let embedded = address.embeddedIPv4
        if isOwn(plain, port) { return .deniedOwnListener }
        if let embedded, isOwn(embedded, port) { return .deniedOwnListener }
        if let exemption, exemption.port == port, exemption.address.plain == plain { return .allowed }
        for index in blocks.indices where blocks[index].block.contains(address) {
            return .denied(rule: Int(blocks[index].rule))
        }
        if let embedded {
            for index in blocks.indices where blocks[index].block.contains(embedded) {
                return .denied(rule: Int(blocks[index].rule))
            }
        }
        return .allowed
    }

    private func isOwn(_ address: IPAddress, _ port: UInt16) -> Bool {
        for index in own.indices where own[index].port == port {
            let listener = own[index].address
            if listener == address { return true }
            // Dialling the unspecified address reaches this machine, where a listener on loopback hears it.
            if address.isUnspecified { return true }
            if listener.isUnspecified {
                if address.isLoopback { return true }
                for place in local.indices where local[place] == address { return true }
            }
        }
        return false
    }

    private struct CompiledBlock: Sendable {
        var block: AddressBlock
        /// Its place in `rules`.
        var rule: Int32
    }
}

extension IPAddress {
    /// ::ffff:0:0/96 (RFC 4291, section 2.5.5.2).
    var isMapped: Bool { !isIPv4 && high == 0 && low >> 32 == 0xffff }

    /// A v4-mapped address as the IPv4 address that the system dials for it; any other as it is.
    var plain: IPAddress { isMapped ? IPAddress(ipv4: UInt32(truncatingIfNeeded: low)) : self }

    package var isUnspecified: Bool { high == 0 && low == 0 }

    var isLoopback: Bool { isIPv4 ? low >> 24 == 127 : high == 0 && low == 1 }

    /// The first `count` bits, the rest cleared.
    func masked(_ count: Int) -> IPAddress {
        // Swift's `<<` takes a shift by the full width as "nothing left".
        if isIPv4 { return IPAddress(ipv4: UInt32(truncatingIfNeeded: low) & (UInt32.max << UInt32(32 - count))) }
        if count <= 64 { return IPAddress(ipv6High: high & (UInt64.max << UInt64(64 - count)), low: 0) }
        return IPAddress(ipv6High: high, low: low & (UInt64.max << UInt64(128 - count)))
    }
}
