// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// A pattern for hosts: a name (or IP literal), `*.example.com` for any depth below that name but not itself, or `*`.
package enum HostPattern: Hashable, Sendable {
    case any
    case exactly(Host)
    case below(Host)
}

extension HostPattern: CustomStringConvertible {
    package var description: String {
        switch self {
        case .any: "*"
        case .exactly(let host): host.description
        case .below(let host): "*.\(host)"
        }
    }
}

/// Compiled patterns for the request path: the cost of a lookup depends on the labels of the host, not on the number of
/// patterns, and nothing is allocated.
package struct HostPatternSet: Equatable, Sendable {
    /// The patterns as written, in order.
    package let patterns: [HostPattern]
    private let anyIndex: Int?
    private var exact = HostTable<Int>()
    private var below = HostTable<Int>()

    package init(_ patterns: [HostPattern]) {
        self.patterns = patterns
        anyIndex = patterns.firstIndex(of: .any)
        for (index, pattern) in patterns.enumerated() {
            // A pattern that occurs twice is found at its first index.
            switch pattern {
            case .any: break
            case .exactly(let host): _ = exact.insert(host, includeSubdomains: false, index)
            case .below(let host): _ = below.insert(host, includeSubdomains: true, index)
            }
        }
    }

    /// Every host.
    package static var any: HostPatternSet { HostPatternSet([.any]) }

    package var isEmpty: Bool { patterns.isEmpty }

    /// Compares the patterns alone, because the rest is compiled from them.
    package static func == (left: HostPatternSet, right: HostPatternSet) -> Bool { left.patterns == right.patterns }

    /// The index of a pattern that matches `host`, or nil.
    package func match(_ host: Host) -> Int? {
        if let anyIndex { return anyIndex }
        if let index = exact.lookup(host) { return index }
        guard host.kind == .name else { return nil }
        // A host below a name has that name, or one below it, as its parent.
        let bytes = host.bytes.span
        var position = 0
        while position < bytes.count, bytes[position] != UInt8(ascii: ".") { position += 1 }
        guard position + 1 < bytes.count else { return nil }
        return below.lookup(bytes: bytes.extracting((position + 1)...), isName: true)
    }

    package func contains(_ host: Host) -> Bool { match(host) != nil }
}
