// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import IOCore

/// A named set of addresses that a rule can deny as one.
package enum AddressGroup: String, CaseIterable, Sendable {
    /// All addresses of this machine at that moment, as the kernel reports them.
    case own = "self"
    case loopback
    case linkLocal = "link-local"
    /// The addresses where cloud machines get their credentials.
    case metadata
    case multicast
    case unspecified
    case `private`
    case cgnat

    /// The value of `denyAddresses` when a configuration has none.
    package static var deniedByDefault: [AddressGroup] {
        [.own, .loopback, .linkLocal, .metadata, .multicast, .unspecified]
    }

    /// The group's blocks: IANA special-purpose registries (RFC 6890 and its updates), and the metadata addresses of
    /// AWS and most others, AWS and Google over IPv6, Alibaba and Azure.
    var blocks: [AddressBlock] {
        let texts: [StaticString] =
            switch self {
            case .loopback: ["127.0.0.0/8", "::1/128"]
            case .linkLocal: ["169.254.0.0/16", "fe80::/10"]
            case .metadata:
                [
                    "169.254.169.254/32", "fd00:ec2::254/128", "fd20:ce::254/128", "100.100.100.200/32",
                    "168.63.129.16/32",
                ]
            case .multicast: ["224.0.0.0/4", "ff00::/8"]
            case .unspecified: ["0.0.0.0/8", "::/128"]
            case .private: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"]
            case .cgnat: ["100.64.0.0/10"]
            case .own: []
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
        /// Bits are set behind the prefix, which is rather a mistake than an intention. The value is the block that was
        /// probably meant.
        case hostBitsSet(String)
        /// A block of v4-mapped addresses: such addresses count as IPv4 addresses.
        case mappedIPv4
    }

    /// Reads `10.0.0.0/8`, `fc00::/7`, or one address alone.
    package init(parsing text: String) throws(Fault) {
        let bytes = text.utf8
        let slash = bytes.firstIndex(of: UInt8(ascii: "/"))
        guard let address = IPAddress(String(text[..<(slash ?? text.endIndex)])) else { throw .notAnAddress }
        // The prefix length would count the bits of the other family.
        if address.isIPv4, bytes.contains(UInt8(ascii: ":")) { throw .mappedIPv4 }
        let width = address.isIPv4 ? 32 : 128
        var prefixLength = width
        if let slash {
            let digits = Array(bytes[bytes.index(after: slash)...])
            guard let number = AddressAndPort.port(digits[...]), Int(number) <= width else { throw .prefixInvalid }
            prefixLength = Int(number)
        }
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

/// Decides which addresses may be dialled. An evaluation compares integers and allocates nothing; only for the
/// machine's own addresses the kernel is queried.
///
/// An address that embeds an IPv4 address (`IPAddress.embedsIPv4`) is evaluated as itself and as that IPv4 address: it
/// is denied if either is.
package struct AddressRules: Sendable {
    package enum Verdict: Equatable, Sendable {
        case allowed
        /// Denied by the entry of `denyAddresses` at this index; `rules` has its text.
        case denied(rule: Int)
        /// The address is one of this program's own listeners.
        case deniedOwnListener
        /// The kernel does not say whether the address is this machine's, and that would decide.
        case undecided(IOFailure)
    }

    /// The entries of `denyAddresses`.
    package let rules: [AddressRule]
    /// The addresses of this program's listeners. A wildcard address stands for all addresses that this machine has at
    /// the time of dialling.
    package let ownListeners: [AddressAndPort]

    private let blocks: [CompiledBlock]
    /// The index of the group `self` in `rules`.
    private let ownRule: Int?
    private let destination: Destination

    /// Looks up the kernel's route to an address.
    package typealias Destination = @Sendable (IPAddress) -> RouteLookup.Destination

    /// - Parameter destination: replaces the kernel's lookup in tests.
    package init(
        denying rules: [AddressRule],
        ownListeners: [AddressAndPort] = [],
        destination: @escaping Destination = { RouteLookup.destination(of: AddressAndPort($0, 0).socketAddress) }
    ) {
        self.rules = rules
        self.ownListeners = ownListeners
        self.destination = destination
        blocks = rules.enumerated().flatMap { index, rule in
            rule.blocks.map { CompiledBlock(block: $0, rule: Int32(index)) }
        }
        ownRule = rules.firstIndex(of: .group(.own))
    }

    /// Decides whether a connection to `address` may be opened.
    ///
    /// `exemption` is the exact address and port of the request's own `resolve`, or of the IP literal in its gateway's
    /// `upstream`. It has precedence over every rule except the one for this program's listeners.
    package func evaluate(_ address: IPAddress, port: UInt16, exempting exemption: AddressAndPort? = nil) -> Verdict {
        if let verdict = evaluateOwnListeners(address, port) { return verdict }
        if let exemption, exemption.port == port, exemption.address == address { return .allowed }
        for index in blocks.indices {
            let block = blocks[index].block
            if block.contains(address) || address.embedsIPv4(where: block.contains) {
                return .denied(rule: Int(blocks[index].rule))
            }
        }
        guard let ownRule else { return .allowed }
        return evaluateOwnAddress(address) { .denied(rule: ownRule) } ?? .allowed
    }

    private func evaluateOwnListeners(_ address: IPAddress, _ port: UInt16) -> Verdict? {
        var isWildcardPort = false
        for index in ownListeners.indices where ownListeners[index].port == port {
            let listener = ownListeners[index].address
            func isListener(_ address: IPAddress) -> Bool {
                // A connection to the unspecified address reaches this machine, and so a listener on loopback.
                listener == address || address.isUnspecified || (listener.isUnspecified && address.isLoopback)
            }
            if isListener(address) || address.embedsIPv4(where: isListener) { return .deniedOwnListener }
            isWildcardPort = isWildcardPort || listener.isUnspecified
        }
        return isWildcardPort ? evaluateOwnAddress(address) { .deniedOwnListener } : nil
    }

    /// The verdict on an address that is, or embeds, an address of this machine; nil for other addresses.
    private func evaluateOwnAddress(_ address: IPAddress, _ verdict: () -> Verdict) -> Verdict? {
        var failure: IOFailure?
        func isOwn(_ address: IPAddress) -> Bool {
            switch destination(address) {
            case .thisMachine: return true
            case .elsewhere: return false
            case .unknown(let cause):
                failure = cause
                return false
            }
        }
        if isOwn(address) || address.embedsIPv4(where: isOwn) { return verdict() }
        return failure.map { .undecided($0) }
    }

    private struct CompiledBlock: Sendable {
        var block: AddressBlock
        /// The index in `rules`.
        var rule: Int32
    }

    /// Names the rule of a verdict and its place in the configuration, for error responses and the log.
    package func describe(_ verdict: Verdict) -> String {
        switch verdict {
        case .allowed: "allowed"
        case .denied(let rule): "access.denyAddresses has \"\(rules[rule])\""
        case .deniedOwnListener: "the address is one of pinproxy's own listeners"
        case .undecided(let cause):
            "the kernel does not say whether the address is this machine's (\(cause)); let the process open netlink "
                + "sockets (AF_NETLINK, in a systemd unit RestrictAddressFamilies)"
        }
    }
}

extension IPAddress {
    package var isUnspecified: Bool { high == 0 && low == 0 }

    package var isLoopback: Bool { isIPv4 ? low >> 24 == 127 : high == 0 && low == 1 }

    /// The first `count` bits, the rest cleared.
    func masked(_ count: Int) -> IPAddress {
        // Swift's `<<` takes a shift by the full width as "nothing left".
        if isIPv4 { return IPAddress(ipv4: UInt32(truncatingIfNeeded: low) & (UInt32.max << UInt32(32 - count))) }
        if count <= 64 { return IPAddress(ipv6High: high & (UInt64.max << UInt64(64 - count)), low: 0) }
        return IPAddress(ipv6High: high, low: low & (UInt64.max << UInt64(128 - count)))
    }
}
