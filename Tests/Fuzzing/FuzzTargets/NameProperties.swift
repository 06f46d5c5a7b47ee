// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// Hosts, addresses, URLs and dates.
enum NameProperties {
    /// An accepted value has one normal form, from which the same value is parsed.
    static func names(_ bytes: [UInt8]) throws(FuzzFinding) {
        if let host = try? Host(normalizing: bytes.span) {
            guard (try? Host(host.authorityText)) == host, (try? Host(host.description)) == host else {
                throw FuzzFinding("the normal form \(host) is no normal form")
            }
            guard host.kind == .name || host.address.map({ Host($0) }) == host else {
                throw FuzzFinding("the literal \(host) is not its address")
            }
        }
        if let address = IPAddress(parsing: bytes.span), IPAddress(address.description) != address {
            throw FuzzFinding("the address \(address) reads differently")
        }
        if let date = HTTPDate.parse(bytes.span, now: 1_800_000_000) {
            // IMF-fixdate has four digits for the year, from 0 on.
            let written = HTTPDate.format(unixSeconds: date)
            guard HTTPDate.parse(written.span, now: 1_800_000_000) == date else {
                throw FuzzFinding("the date \(String(decoding: written, as: UTF8.self)) reads differently")
            }
        }
        if let url = AbsoluteURL(bytes.span), (try? Host(url.origin.host.description)) != url.origin.host {
            throw FuzzFinding("the host of \(url) is not in its normal form")
        }
        _ = URLReference(bytes.span)
    }
}
