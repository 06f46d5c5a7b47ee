// SPDX-License-Identifier: Apache-2.0
import CShims

/// One message of a routing socket (rtnetlink(7)), as far as reachability needs it.
///
/// Numbers have the machine's byte order; a message shorter than its kind requires is malformed.
enum NetlinkMessage: Equatable {
    case link(NetworkLink)
    case route(NetworkRoute)
    /// The end of a reply with several parts.
    case done
    /// The reply to a failed request, with the `errno` value; 0 confirms a request.
    case error(Int32)
    case other

    /// Reads the messages of one datagram, except those that reply to other requests.
    ///
    /// - Returns: nil when the datagram is malformed.
    static func messages(in datagram: borrowing Span<UInt8>, sequence: UInt32) -> [NetlinkMessage]? {
        var found: [NetlinkMessage] = []
        var position = 0
        // struct nlmsghdr: length, type, flags, sequence, sender.
        while position < datagram.count {
            guard datagram.count - position >= 16 else { return nil }
            let length = Int(datagram.native32(position))
            guard length >= 16, length <= datagram.count - position else { return nil }
            if datagram.native32(position + 8) == sequence {
                let type = Int32(datagram.native16(position + 4))
                guard let message = message(type, datagram.extracting((position + 16)..<(position + length)))
                else { return nil }
                found.append(message)
            }
            position += aligned(length)
        }
        return found
    }

    private static func message(_ type: Int32, _ body: borrowing Span<UInt8>) -> NetlinkMessage? {
        switch type {
        case PINPROXY_NETLINK_DONE: .done
        // Wrapping: the smallest number has no positive counterpart.
        case PINPROXY_NETLINK_ERROR: body.count >= 4 ? .error(0 &- Int32(bitPattern: body.native32(0))) : nil
        case PINPROXY_NETLINK_NEW_LINK: NetworkLink(body).map { .link($0) }
        case PINPROXY_NETLINK_NEW_ROUTE: NetworkRoute(body).map { .route($0) }
        default: .other
        }
    }

    fileprivate static func aligned(_ length: Int) -> Int { (length + 3) & ~3 }

    /// Calls `body` with the type of each attribute (struct rtattr) and the range of its value.
    ///
    /// - Returns: false when the attributes are malformed.
    fileprivate static func attributes(
        of message: borrowing Span<UInt8>,
        from start: Int,
        _ body: (_ type: Int, _ value: Range<Int>) -> Void
    ) -> Bool {
        var position = start
        while position < message.count {
            guard message.count - position >= 4 else { return false }
            let length = Int(message.native16(position))
            guard length >= 4, length <= message.count - position else { return false }
            // The two upper bits are flags of the value's form.
            body(Int(message.native16(position + 2) & 0x3FFF), (position + 4)..<(position + length))
            position += aligned(length)
        }
        return true
    }
}

/// A network interface.
struct NetworkLink: Equatable {
    var index: Int32
    var flags: UInt32
    /// ARPHRD_… (netdevice(7)).
    var hardware: UInt16
    var name: String
    /// The driver's kind if it has one (`wwan`, `wireguard`, `veth`).
    var kind: String

    /// struct ifinfomsg and its attributes IFLA_IFNAME (3) and IFLA_LINKINFO (18) with IFLA_INFO_KIND (1) in it.
    fileprivate init?(_ body: borrowing Span<UInt8>) {
        guard body.count >= 16 else { return nil }
        hardware = body.native16(2)
        index = Int32(bitPattern: body.native32(4))
        flags = body.native32(8)
        var nameRange = 0..<0
        var kindRange = 0..<0
        var isWhole = true
        isWhole =
            NetlinkMessage.attributes(of: body, from: 16) { type, value in
                if type == 3 { nameRange = value }
                if type == 18 { kindRange = value }
            } && isWhole
        guard isWhole else { return nil }
        name = body.text(nameRange)
        var kind = ""
        let info = body.extracting(kindRange)
        var inner = 0..<0
        guard NetlinkMessage.attributes(of: info, from: 0, { type, value in if type == 1 { inner = value } })
        else { return nil }
        kind = info.text(inner)
        self.kind = kind
    }

    init(index: Int32, flags: UInt32, hardware: UInt16, name: String, kind: String = "") {
        self.index = index
        self.flags = flags
        self.hardware = hardware
        self.name = name
        self.kind = kind
    }

    /// Whether the link can send packets: it is up and has a carrier.
    var isRunning: Bool { flags & PINPROXY_LINK_UP != 0 && flags & PINPROXY_LINK_RUNNING != 0 }
    var isLoopback: Bool { flags & PINPROXY_LINK_LOOPBACK != 0 }

    /// The type of the link.
    ///
    /// - Parameter isWireless: whether the interface has an IEEE 802.11 radio.
    func connectionType(isWireless: Bool) -> NetworkReachabilityStatus.ConnectionType {
        if kind == "wwan" || name.hasPrefix("wwan") { return .cellular }
        switch hardware {
        case 1: return isWireless ? .wifi : .ethernet
        case 801...803: return .wifi
        // ARPHRD_PPP, ARPHRD_RAWIP, ARPHRD_PHONET: the types of modems.
        case 512, 519, 820: return .cellular
        default: return .other
        }
    }
}

/// A route to a set of addresses.
struct NetworkRoute: Equatable {
    /// Whether it is the route to all addresses without another one.
    var isDefault: Bool
    /// Whether packets are forwarded by it, and not refused or dropped.
    var isUnicast: Bool
    /// The index of the interface; 0 for none.
    var link: Int32
    /// The route with the lowest metric is used.
    var metric: UInt32

    /// struct rtmsg and its attributes RTA_OIF (4), RTA_PRIORITY (6), RTA_MULTIPATH (9).
    fileprivate init?(_ body: borrowing Span<UInt8>) {
        guard body.count >= 12 else { return nil }
        let type = body[7]
        // RTN_UNICAST and RTN_LOCAL.
        isUnicast = type == 1 || type == 2
        isDefault = body[1] == 0 && type == 1
        link = 0
        metric = 0
        var interface: UInt32 = 0
        var priority: UInt32 = 0
        var paths = 0..<0
        var isWhole = true
        let attributesAreWhole = NetlinkMessage.attributes(of: body, from: 12) { type, value in
            switch type {
            case 4 where value.count >= 4: interface = body.native32(value.lowerBound)
            case 6 where value.count >= 4: priority = body.native32(value.lowerBound)
            // struct rtnexthop: length, flags, hops, interface.
            case 9 where value.count >= 8: paths = value
            case 4, 6, 9: isWhole = false
            default: break
            }
        }
        guard attributesAreWhole, isWhole else { return nil }
        if interface == 0, !paths.isEmpty { interface = body.native32(paths.lowerBound + 4) }
        link = Int32(bitPattern: interface)
        metric = priority
    }

    init(isDefault: Bool, isUnicast: Bool = true, link: Int32, metric: UInt32 = 0) {
        self.isDefault = isDefault
        self.isUnicast = isUnicast
        self.link = link
        self.metric = metric
    }
}

extension Span where Element == UInt8 {
    fileprivate func native16(_ position: Int) -> UInt16 {
        let number = UInt16(self[position]) | UInt16(self[position + 1]) << 8
        #if _endian(big)
        return number.byteSwapped
        #else
        return number
        #endif
    }

    fileprivate func native32(_ position: Int) -> UInt32 {
        let low = UInt32(self[position]) | UInt32(self[position + 1]) << 8
        let number = low | UInt32(self[position + 2]) << 16 | UInt32(self[position + 3]) << 24
        #if _endian(big)
        return number.byteSwapped
        #else
        return number
        #endif
    }

    /// A text without its trailing zeros.
    fileprivate func text(_ range: Range<Int>) -> String {
        var bytes: [UInt8] = []
        for index in range where self[index] != 0 { bytes.append(self[index]) }
        return String(decoding: bytes, as: UTF8.self)
    }
}
