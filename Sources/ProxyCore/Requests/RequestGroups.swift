// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration

/// Counted requests by origin and method, with their paths in the form that rules would have: for people.
///
/// Clients choose hosts, methods and paths: what is told apart is bounded by a budget, which several of these may share.
package struct RequestGroups: Sendable {
    /// Requests of one method to one origin whose paths have one form.
    package struct Group: Hashable, Sendable {
        /// `https://api.example.com`; the host and port of a CONNECT.
        package var origin: String
        package var method: String
        /// A pattern; a path that can be read in two ways as it was; empty for a CONNECT.
        package var path: String
        package var count: Int
    }

    private struct Place: Hashable {
        var origin: String
        var method: String
    }

    private struct Paths {
        /// How often each path was asked for.
        var regular: [String: Int] = [:]
        /// Paths that no pattern is made of: they can be read in two ways, or have a star.
        var odd: [String: Int] = [:]
    }

    private var places: [Place: Paths] = [:]
    /// The number of requests.
    package private(set) var count = 0

    package init() {}

    /// Counts a request.
    ///
    /// - Parameters:
    ///   - target: path and query; empty for a CONNECT.
    ///   - budget: about how many bytes may still be taken up.
    /// - Returns: false when there is no budget for it; it is not counted then.
    package mutating func add(_ method: String, _ origin: String, target: [UInt8], within budget: inout Int) -> Bool {
        let path = Array(target[..<RequestReading.endOfPath(target.span)])
        let reading = RequestReading(path: path.span)
        let isOdd =
            reading.path != nil || path.contains(UInt8(ascii: "*")) || reading.encodedSlashes >= RulePath.starLimit
        let text = String(decoding: isOdd ? path : PathPattern.normal(path.span), as: UTF8.self)
        let place = Place(origin: origin, method: method)
        let isKnown = isOdd ? places[place]?.odd[text] != nil : places[place]?.regular[text] != nil
        if !isKnown {
            guard budget > 0 else { return false }
            budget -= RequestLearner.cost(of: path)
            if places[place] == nil { budget -= origin.utf8.count + method.utf8.count + RequestLearner.costOfTable }
        }
        if isOdd {
            places[place, default: Paths()].odd[text, default: 0] += 1
        } else {
            places[place, default: Paths()].regular[text, default: 0] += 1
        }
        count += 1
        return true
    }

    /// As many odd paths of one origin and method are shown by themselves.
    private static let oddPaths = 4

    /// The groups, those of most requests first.
    package var groups: [Group] {
        var groups: [Group] = []
        for (place, paths) in places {
            let patterns = RequestLearner.patterns(for: Set(paths.regular.keys)).compactMap { RulePath($0) }
            var counts = [Int](repeating: 0, count: patterns.count)
            for (path, count) in paths.regular {
                let bytes = Array(path.utf8)
                var forms = PathForms(bytes.span)
                let slashes = RequestReading(path: bytes.span).encodedSlashes
                for index in patterns.indices where patterns[index].matches(&forms, encodedSlashes: slashes) {
                    counts[index] += count
                    break
                }
            }
            for (pattern, count) in zip(patterns, counts) where count > 0 {
                groups.append(Group(origin: place.origin, method: place.method, path: pattern.text, count: count))
            }
            let odd = paths.odd.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            for (path, count) in odd.prefix(Self.oddPaths) {
                groups.append(Group(origin: place.origin, method: place.method, path: path, count: count))
            }
            let rest = odd.dropFirst(Self.oddPaths).reduce(0) { $0 + $1.value }
            if rest > 0 { groups.append(Group(origin: place.origin, method: place.method, path: " …", count: rest)) }
        }
        return groups.sorted { ($1.count, $0.origin, $0.path, $0.method) < ($0.count, $1.origin, $1.path, $1.method) }
    }
}
