// SPDX-License-Identifier: Apache-2.0
import IOCore

extension AbsoluteURL {
    /// Resolves a URI reference with this URL as the base (RFC 3986, section 5.2): for `Location`.
    ///
    /// - Returns: nil when the reference is ambiguous (`URLReference`), or has another scheme than http and https.
    package func resolving(_ reference: borrowing Span<UInt8>) -> AbsoluteURL? {
        switch URLReference(reference) {
        case nil, .otherScheme:
            return nil
        case .absolute(let origin, let rest):
            return AbsoluteURL(origin: origin, rest: Self.normal([UInt8](copying: reference.extracting(rest))))
        case .schemeRelative(let host, let port, let rest):
            return AbsoluteURL(
                origin: Origin(scheme: origin.scheme, host: host, port: port),
                rest: Self.normal([UInt8](copying: reference.extracting(rest)))
            )
        case .pathAbsolute:
            return AbsoluteURL(origin: origin, rest: Self.normal([UInt8](copying: reference)))
        case .relative:
            return AbsoluteURL(origin: origin, rest: merging([UInt8](copying: reference)))
        }
    }

    /// Section 5.2.3, and 5.2.2 for references that begin with `?` or `#` or are empty.
    private func merging(_ reference: [UInt8]) -> [UInt8] {
        let base = rest.prefix { $0 != ASCII.numberSign }
        let path = base.prefix { $0 != ASCII.questionMark }
        switch reference.first {
        case nil: return Self.normal(Array(base))
        case ASCII.numberSign: return Self.normal(base + reference)
        case ASCII.questionMark: return Self.normal(path + reference)
        default:
            let folder = path.lastIndex(of: ASCII.slash).map { path[...$0] } ?? [ASCII.slash]
            return Self.normal(folder + reference)
        }
    }

    /// The URL with a path, and without dot segments (section 5.2.4).
    private static func normal(_ rest: [UInt8]) -> [UInt8] {
        let path = rest.prefix { $0 != ASCII.questionMark && $0 != ASCII.numberSign }
        var kept: [ArraySlice<UInt8>] = []
        let segments = path.split(separator: ASCII.slash, omittingEmptySubsequences: false).dropFirst()
        for (number, segment) in segments.enumerated() {
            let isLast = number == segments.count - 1
            if segment.elementsEqual([ASCII.dot]) {
                if isLast { kept.append([]) }
            } else if segment.elementsEqual([ASCII.dot, ASCII.dot]) {
                _ = kept.popLast()
                if isLast { kept.append([]) }
            } else {
                kept.append(segment)
            }
        }
        if kept.isEmpty { kept.append([]) }
        return kept.flatMap { [ASCII.slash] + $0 } + rest[path.endIndex...]
    }

    /// The URL as text, without the scheme's default port.
    package var text: String { origin.description + String(decoding: rest, as: UTF8.self) }

    /// The request target in origin form: path and query.
    package var target: [UInt8] {
        let target = rest.prefix { $0 != ASCII.numberSign }
        return target.first == ASCII.slash ? Array(target) : [ASCII.slash] + target
    }

    package init(origin: Origin, rest: [UInt8]) {
        self.origin = origin
        self.rest = rest
    }
}
