// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The result of a name lookup.
typealias NameAnswer = Result<[SocketAddress], NameFailure>

/// Why a name has no address.
struct NameFailure: Error, Equatable, Sendable {
    enum Reason: Sendable {
        /// The resolver says that there is none.
        case unknown
        /// No name server has responded in time.
        case silent
        /// The process has no descriptor left.
        case withoutDescriptor
        case failed
    }

    let reason: Reason
    /// The resolver's own words.
    let words: String
}

/// The first addresses of each family of a name: a dial tries no more, and a zone or a file may have thousands.
struct FirstAddresses {
    /// The number of addresses of a family.
    static let most = 16
    /// The same of a lookup that is to find whether an address is among them.
    static let mostOfCheck = 128
    static func most(isCheck: Bool) -> Int { isCheck ? mostOfCheck : most }

    private let most: Int
    private(set) var all: [SocketAddress] = []
    private var ipv4Count = 0
    private var ipv6Count = 0

    init(most: Int = Self.most) { self.most = most }

    init(of addresses: [SocketAddress], most: Int = Self.most) {
        self.init(most: most)
        for address in addresses { append(address) }
    }

    mutating func append(_ address: SocketAddress) {
        if address.family == .ipv4 {
            guard ipv4Count < most else { return }
            ipv4Count += 1
        } else {
            guard ipv6Count < most else { return }
            ipv6Count += 1
        }
        all.append(address)
    }
}
