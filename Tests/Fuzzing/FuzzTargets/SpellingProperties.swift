// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust
import SessionCore
import TestSupport

/// One host in many spellings: a pin file, a rule and a request in any spelling mean the same host, and the proxy
/// connects to the address that the rules have checked.
package enum SpellingProperties {
    /// Makes a host from the first bytes, and spellings of it from the others.
    package static func spellings(_ bytes: [UInt8]) throws(FuzzFinding) {
        var choices = Choices(bytes: bytes)
        let subject = Subject(&choices)
        let inFile = subject.spelling(&choices)
        let inRule = subject.spelling(&choices)
        let inRequest = subject.spelling(&choices)
        let port = UInt16(1024 + choices.next(60_000))
        guard let named = try? DomainName.host(inFile), let ruled = try? Host(inRule) else {
            throw FuzzFinding("\(inFile) or \(inRule) is not read")
        }
        let asked = try host(of: inRequest, port)
        guard named == ruled, named == asked, named.hashValue == asked.hashValue else {
            throw FuzzFinding("\(inFile), \(inRule) and \(inRequest) are \(named), \(ruled) and \(asked)")
        }
        guard asked.address == address(inRequest) else {
            throw FuzzFinding("\(inRequest) is \(asked), and the system dials another address")
        }
        try pins(named, asked, port)
        try rules(ruled, asked, port)
    }

    /// The host from the parser's result for a request.
    private static func host(of spelling: String, _ port: UInt16) throws(FuzzFinding) -> Host {
        var parser = RequestParser()
        var head = RequestHead()
        let text = Array("GET http://\(spelling):\(port)/ HTTP/1.1\r\nHost: \(spelling):\(port)\r\n\r\n".utf8)
        guard parser.parse(text.span, into: &head).outcome == .complete, let host = head.host, head.port == port else {
            throw FuzzFinding("a request for \(spelling) is not read")
        }
        return host
    }

    /// The address that inet_pton(3) makes from a literal; a mapped address becomes the IPv4 address that the kernel
    /// uses.
    private static func address(_ spelling: String) -> IPAddress? {
        var four = in_addr()
        var six = in6_addr()
        var text = spelling.hasSuffix(".") ? String(spelling.dropLast()) : spelling
        if inet_pton(AF_INET, text, &four) == 1 { return IPAddress(ipv4: UInt32(bigEndian: four.s_addr)) }
        text = String(text.dropFirst().dropLast())
        guard inet_pton(AF_INET6, text, &six) == 1 else { return nil }
        let bytes = withUnsafeBytes(of: six) { Array($0) }
        let isMapped = bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
        let kept = isMapped ? Array(bytes[12...]) : bytes
        return IPAddress(networkOrder: kept.span)
    }

    // MARK: The proxy's answers

    private static let policy = try! SecurityPolicy.pinning(.unrelated(2))
    private static let anchors = TrustAnchors(certificates: [])

    private static func router(_ pinned: Host?, _ access: AccessConfiguration) -> Router {
        var configuration = Configuration()
        configuration.access = access
        configuration.unpinnedHosts = pinned == nil ? .allow : .deny
        let none = PinnedDomains()
        let domains = pinned.flatMap { none.adding(policy, host: $0, source: "fuzz") } ?? none
        var parts = PolicyParts(configuration: configuration, pinnedDomains: domains, trustAnchors: anchors)
        parts.ownListeners = []
        return Router(snapshot: PolicySnapshot(parts, generation: 1))
    }

    private static func pins(_ named: Host, _ asked: Host, _ port: UInt16) throws(FuzzFinding) {
        var open = AccessConfiguration()
        open.denyAddresses = []
        for scheme in [RequestHead.Scheme.http, .https] {
            let response = router(named, open).endpoint(Origin(scheme: scheme, host: asked, port: port))
            guard case .success(let endpoint) = response, endpoint.scheme == .https, endpoint.policy === policy,
                endpoint.host == named, endpoint.port == port
            else { throw FuzzFinding("\(asked) escapes the pins of \(named)") }
        }
    }

    private static func rules(_ ruled: Host, _ asked: Host, _ port: UInt16) throws(FuzzFinding) {
        var access = AccessConfiguration()
        access.denyAddresses = []
        access.denyHosts = [.exactly(ruled)]
        let origin = Origin(scheme: .http, host: asked, port: port)
        guard case .failure(let problem) = router(nil, access).endpoint(origin), problem.code == .hostDenied else {
            throw FuzzFinding("\(asked) escapes denyHosts \(ruled)")
        }
        guard let address = ruled.address, let block = try? AddressBlock(parsing: "\(address)") else { return }
        access.denyHosts = []
        access.denyAddresses = [.block(block)]
        guard case .failure(let denied) = router(nil, access).endpoint(origin), denied.code == .addressDenied else {
            throw FuzzFinding("\(asked) escapes denyAddresses \(block)")
        }
    }
}

/// Small numbers from a fuzzer's input; zeros after its end.
private struct Choices {
    var bytes: [UInt8]
    private var position = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    mutating func byte() -> UInt8 {
        guard position < bytes.count else { return 0 }
        defer { position += 1 }
        return bytes[position]
    }

    mutating func next(_ bound: Int) -> Int { (Int(byte()) << 8 | Int(byte())) % bound }

    mutating func flip() -> Bool { byte() & 1 == 1 }
}

/// A host, independent of its spelling.
private enum Subject {
    case ipv4(UInt32)
    case ipv6([UInt16])
    case name([[UInt8]])

    init(_ choices: inout Choices) {
        switch choices.next(3) {
        case 0: self = .ipv4(UInt32(choices.next(65_536)) << 16 | UInt32(choices.next(65_536)))
        case 1:
            // Zeros are common in addresses, and allow the most different spellings.
            var groups = (0..<8).map { _ in choices.flip() ? UInt16(choices.next(65_536)) : 0 }
            // IPv4 addresses have their own case.
            if groups[..<5].allSatisfy({ $0 == 0 }), groups[5] == 0xFFFF { groups[0] = 1 }
            self = .ipv6(groups)
        default:
            let letters = Array("abcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
            let labels = (0...choices.next(4)).map { _ in
                [UInt8(ascii: "x")] + (0..<choices.next(8)).map { _ in letters[choices.next(letters.count)] }
            }
            self = .name(labels)
        }
    }

    /// The form in an authority, without a port.
    func spelling(_ choices: inout Choices) -> String {
        switch self {
        case .ipv4(let value):
            let dotted = Self.dotted(value)
            switch choices.next(4) {
            case 0: return dotted
            case 1: return dotted + "."
            default:
                return "[\(Self.text([0, 0, 0, 0, 0, 0xFFFF, UInt16(value >> 16), UInt16(value & 0xFFFF)], &choices))]"
            }
        case .ipv6(let groups):
            return "[\(Self.text(groups, &choices))]"
        case .name(let labels):
            var bytes: [UInt8] = []
            for label in labels {
                if !bytes.isEmpty { bytes.append(UInt8(ascii: ".")) }
                for byte in label {
                    let isLetter = byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "z")
                    bytes.append(isLetter && choices.flip() ? byte & ~0x20 : byte)
                }
            }
            return String(decoding: bytes, as: UTF8.self) + (choices.flip() ? "." : "")
        }
    }

    private static func dotted(_ value: UInt32) -> String {
        "\(value >> 24).\(value >> 16 & 255).\(value >> 8 & 255).\(value & 255)"
    }

    /// RFC 4291, section 2.2: leading zeros or none, either case, one run of zeros omitted or none, the end in dotted
    /// decimal or not.
    private static func text(_ groups: [UInt16], _ choices: inout Choices) -> String {
        var words = groups.map { group in
            let digits = String(group, radix: 16, uppercase: choices.flip())
            return String(repeating: "0", count: choices.next(5 - digits.utf8.count)) + digits
        }
        if choices.flip() {
            words.removeLast(2)
            words.append(dotted(UInt32(groups[6]) << 16 | UInt32(groups[7])))
        }
        let start = choices.next(8)
        var end = start
        // A dotted end is not divided.
        while end < min(8, words.count == 8 ? 8 : 6), groups[end] == 0 { end += 1 }
        guard end > start, choices.next(4) != 0 else { return words.joined(separator: ":") }
        return words[..<start].joined(separator: ":") + "::" + words[end...].joined(separator: ":")
    }
}
