// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

// Values that `config.json` writes as strings; each reader reports an issue at a wrong value.

extension DocumentElement {
    func duration() -> Milliseconds? {
        guard let text = string() else { return nil }
        if let value = Milliseconds(parsing: text) { return value }
        report(
            "not a duration",
            remedy: "write a whole number and ms, s, m or h, from \"1ms\" to \"240h\": \"250ms\", \"30s\""
        )
        return nil
    }

    func size(in range: ClosedRange<Int> = 1...(1 << 50)) -> Int? {
        guard let text = string() else { return nil }
        guard let value = ByteCount.parse(text) else {
            report("not a size", remedy: "write a whole number and KB, MB or GB: \"64KB\"")
            return nil
        }
        guard range.contains(value) else {
            let bounds = "from \(ByteCount.describe(range.lowerBound)) to \(ByteCount.describe(range.upperBound))"
            report("\(ByteCount.describe(value)) is out of range", remedy: "write a size \(bounds)")
            return nil
        }
        return value
    }

    /// Reads a path, relative to the document's folder.
    func path() -> String? {
        guard let text = string() else { return nil }
        guard !text.isEmpty, !text.utf8.contains(0) else {
            report("not a path", remedy: "name a file or folder, relative to this file or absolute")
            return nil
        }
        return reader.resolve(path: text)
    }

    /// Reads an IP address and a port to connect to or, with `allowsFreePort`, to listen on.
    func addressAndPort(allowsFreePort: Bool) -> AddressAndPort? {
        guard let text = string() else { return nil }
        let example = allowsFreePort ? "127.0.0.1:8080 or [::1]:8080" : "127.0.0.1:8443 or [::1]:8443"
        do {
            let address = try AddressAndPort(parsing: text)
            if address.port == 0, !allowsFreePort {
                report("port 0 cannot be connected to", remedy: "write a port from 1 to 65535")
                return nil
            }
            if address.address.isIPv4, text.hasPrefix("[") {
                report("a v4-mapped address", remedy: "write \"\(address)\"")
                return nil
            }
            return address
        } catch {
            switch error {
            case .portMissing: report("the port is missing", remedy: "write an address and a port: \(example)")
            case .portInvalid:
                report("not a port", remedy: "write a port from \(allowsFreePort ? 0 : 1) to 65535")
            case .bracketsMissing: report("an IPv6 address without brackets", remedy: "write it as in [::1]:8080")
            case .addressInvalid:
                report("not an IP address and a port", remedy: "write \(example); names are not looked up here")
            }
            return nil
        }
    }

    func hostPattern() -> HostPattern? {
        guard let text = string() else { return nil }
        if text == "*" { return .any }
        guard text.hasPrefix("*.") else { return HostName.read(text, on: self).map(HostPattern.exactly) }
        guard let host = HostName.read(String(text.dropFirst(2)), on: self) else { return nil }
        guard host.kind == .name else {
            report("nothing lies below an IP address", remedy: "name the address, or deny a block in denyAddresses")
            return nil
        }
        return .below(host)
    }

    func hostPatterns() -> [HostPattern]? {
        elements()?.compactMap { $0.hostPattern() }
    }

    /// Reads patterns, of which at least one is required: an empty list would refuse every request.
    func allowingHostPatterns() -> [HostPattern]? {
        guard let elements = elements() else { return nil }
        if elements.isEmpty {
            report("allows no host at all", remedy: "name the hosts to allow, or take it out to allow every host")
            return nil
        }
        return elements.compactMap { $0.hostPattern() }
    }

    func addressRule() -> AddressRule? {
        guard let text = string() else { return nil }
        let looksNumeric = text.utf8.contains { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "/") }
        let beginsWithDigit = text.utf8.first.map { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") } ?? false
        guard looksNumeric || beginsWithDigit else { return choice(AddressGroup.self).map(AddressRule.group) }
        do {
            return .block(try AddressBlock(parsing: text))
        } catch {
            switch error {
            case .notAnAddress: report("not an address block", remedy: "write one as in 10.0.0.0/8 or fc00::/7")
            case .prefixInvalid:
                report("the prefix length is not one", remedy: "write 0 to 32 for IPv4, 0 to 128 for IPv6")
            case .hostBitsSet(let meant):
                report("bits are set behind the prefix", remedy: "if the whole block is meant, write \"\(meant)\"")
            case .mappedIPv4:
                report(
                    "a block of v4-mapped addresses",
                    remedy: "write the IPv4 block; addresses that embed one are judged by it"
                )
            }
            return nil
        }
    }
}

/// Host names in the configuration: the same forms, and the same result, as in pin files.
enum HostName {
    /// The normal form of `text`, which is in or at `element`; nil after an issue about it.
    static func read(_ text: String, on element: DocumentElement) -> Host? {
        if text.utf8.contains(UInt8(ascii: "*")) {
            element.report(
                "a pattern that is not supported",
                remedy:
                    "\"*.example.com\" takes in all below that name; an entry of hosts says includeSubdomains instead"
            )
            return nil
        }
        let colons = text.utf8.filter { $0 == UInt8(ascii: ":") }.count
        if colons == 1 || text.contains("]:") || text.contains("/") {
            element.report("more than a host", remedy: "name the host alone, without scheme, port or path")
            return nil
        }
        do {
            return try DomainName.host(text)
        } catch {
            element.report(
                "not a host: \(error.message)",
                remedy: "write a name as in api.example.com, or an IP address"
            )
            return nil
        }
    }
}
