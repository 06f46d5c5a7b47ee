// SPDX-License-Identifier: Apache-2.0
import HTTPCore

extension RedisAddress {
    /// An address that a server has named.
    ///
    /// - Returns: nil unless the name is a host of at most 255 bytes, and the port one from 1 to 65535.
    init?(name: [UInt8], port: Int) {
        guard 1...255 ~= name.count, 1...65_535 ~= port,
            let host = try? Host(String(decoding: name, as: UTF8.self))
        else { return nil }
        self.init(host: host.authorityText, port: port)
    }

    /// The number of a port in decimal digits; nil for everything else.
    static func port(_ digits: some Collection<UInt8>) -> Int? {
        guard 1...5 ~= digits.count, digits.allSatisfy(ASCII.isDigit) else { return nil }
        let number = digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
        return 1...65_535 ~= number ? number : nil
    }

    /// The owner's addresses in the form of those that servers name, so that a server has one connection and not two.
    var normalForm: RedisAddress { RedisAddress(name: Array(host.utf8), port: port) ?? self }
}
