// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import ProxyConfiguration

/// Proposes rules for requests that were seen: the smallest list that lets requests like them through. Places in paths at which
/// ids or many different names were seen become stars.
package struct RequestLearner: Sendable {
    /// A request that a server has responded to.
    package struct Sighting: Sendable {
        package var host: Host
        /// Nil: the port of the scheme.
        package var port: UInt16?
        /// As it was sent; nil for a tunnel.
        package var method: String?
        /// Whether it offered another protocol.
        package var isUpgrade: Bool
        /// Whether nothing was there. Its path is learned as it is, and no star is made of it: otherwise a program would get wider
        /// rules by asking for names that it invents.
        package var isAbsent: Bool
        /// Path and query.
        package var target: [UInt8]

        package init(
            host: Host,
            port: UInt16?,
            method: String?,
            isUpgrade: Bool = false,
            isAbsent: Bool = false,
            target: [UInt8]
        ) {
            self.host = host
            self.port = port
            self.method = method
            self.isUpgrade = isUpgrade
            self.isAbsent = isAbsent
            self.target = target
        }
    }

    package enum Outcome: Hashable, Sendable {
        case learned
        /// A rule with a path would not match such a request.
        case ambiguous(RequestAmbiguity)
        /// The path has a star itself, which would become a pattern.
        case literalStar
        /// The path has a character that no pattern has.
        case unwritablePath
        /// The method is none that a rule names: it has other characters than capital letters, digits, `-` and `_`, or is a word that
        /// means something else in rules.
        case unusualMethod
        /// There are more hosts or paths than are told apart.
        case surplus
    }

    private struct Place: Hashable {
        var host: Host
        var port: UInt16?
    }

    /// By the words that a rule needs for the method, with a space between them.
    private var paths: [Place: [String: Set<String>]] = [:]
    /// Paths at which nothing was.
    private var absent: [Place: [String: Set<String>]] = [:]
    private var counts: [Place: Int] = [:]
    private var tunnels: Set<Place> = []
    /// What the paths take up, and their tree when rules are made of them.
    private var pathBytes = 0

    /// Names that clients invent do not fill the memory.
    private static let hostBound = 10_000
    private let pathBound: Int
    /// As many different names at one place of a path stand for themselves.
    private static let namesAtOnePlace = 4
    /// As many patterns stand in a rule; more become fewer and wider ones.
    private static let patternsOfRule = 16
    /// As many paths at which nothing was are learned.
    private static let absentOfMethod = 16

    /// - Parameter pathBound: about how many bytes paths and methods may take up.
    package init(pathBound: Int = 32 << 20) { self.pathBound = pathBound }

    /// The number of hosts that were seen.
    package var hostCount: Int { counts.count }

    package mutating func add(_ sighting: Sighting) -> Outcome {
        let place = Place(host: sighting.host, port: sighting.port)
        guard counts.count < Self.hostBound || counts[place] != nil else { return .surplus }
        guard let method = sighting.method else {
            tunnels.insert(place)
            counts[place, default: 0] += 1
            return .learned
        }
        guard Self.isUsual(method) else { return .unusualMethod }
        let reading = RequestReading(target: sighting.target.span, fields: HeaderFields())
        if let ambiguity = reading.path ?? reading.method { return .ambiguous(ambiguity) }
        // Each has a star on both sides in the widest pattern.
        guard reading.encodedSlashes < RulePath.starLimit else { return .ambiguous(.encodedSlash) }
        let end = RequestReading.endOfPath(sighting.target.span)
        let written = Array(sighting.target[..<end])
        let path = PathPattern.normal(written.span)
        guard !path.contains(UInt8(ascii: "*")) else { return .literalStar }
        let text = String(decoding: path, as: UTF8.self)
        // The word means GET alone, and with another method a rule needs both.
        let words = sighting.isUpgrade ? method == "GET" ? "UPGRADE" : "UPGRADE \(method)" : method
        let (isKnown, count) = state(of: text, sighting.isAbsent, place, words)
        if !isKnown {
            guard PathPattern(text) != nil else { return .unwritablePath }
            guard pathBytes < pathBound else { return .surplus }
            pathBytes += Self.cost(of: path)
            // Clients may invent methods, too.
            if count == 0 { pathBytes += words.utf8.count + Self.costOfTable }
            if sighting.isAbsent {
                guard count < Self.absentOfMethod else { return .surplus }
                absent[place, default: [:]][words, default: []].insert(text)
            } else {
                paths[place, default: [:]][words, default: []].insert(text)
            }
        }
        counts[place, default: 0] += 1
        return .learned
    }

    /// Whether a path was seen before, and how many with the same words were. A set that is held while a path is inserted would be
    /// copied.
    private func state(of path: String, _ isAbsent: Bool, _ place: Place, _ words: String) -> (Bool, count: Int) {
        guard let known = isAbsent ? absent[place]?[words] : paths[place]?[words] else { return (false, 0) }
        return (known.contains(path), known.count)
    }

    /// About how many bytes a path takes up in a table, and its segments in a tree.
    static func cost(of path: [UInt8]) -> Int {
        let segments = path.count { $0 == UInt8(ascii: "/") }
        return path.count + 64 + 128 * min(segments, PathTree.depth)
    }

    static let costOfTable = 256

    /// The proposed rules, ordered by host, each with the number of requests that were seen to its hosts.
    package var proposal: [(rule: RequestRule, requests: Int)] {
        var rules: [(rule: RequestRule, requests: Int)] = []
        var known: [String: Int] = [:]
        func add(_ place: Place, _ words: [String], _ patterns: [String]) {
            // Hosts with the same methods and paths share a rule.
            let key = "\(place.port ?? 0) \(words) \(patterns)"
            if let index = known[key] {
                rules[index].rule.hosts.append(.exactly(place.host))
                rules[index].requests += counts[place] ?? 0
                return
            }
            var rule = RequestRule(id: "", .allow)
            rule.hosts = [.exactly(place.host)]
            rule.ports = place.port.map { [$0] } ?? []
            if !words.isEmpty {
                var methods = RuleMethods()
                methods.words = words
                rule.methods = methods
            }
            rule.paths = patterns.compactMap { RulePath($0) }
            // Without a path it would be for all of them.
            guard rule.methods == nil || !rule.paths.isEmpty else { return }
            known[key] = rules.count
            rules.append((rule, counts[place] ?? 0))
        }
        let places = counts.keys.sorted { ($0.host.description, $0.port ?? 0) < ($1.host.description, $1.port ?? 0) }
        for place in places {
            let ofPlace = patterns(at: place)
            // A CONNECT whose requests were seen was intercepted.
            if ofPlace.isEmpty, tunnels.contains(place) { add(place, [], []) }
            var methods: [[String]: [String]] = [:]
            for (method, patterns) in ofPlace { methods[patterns, default: []].append(method) }
            for (patterns, words) in methods.sorted(by: { $0.value.min()! < $1.value.min()! }) {
                add(place, Self.words(words), patterns)
            }
        }
        var ids: Set<String> = []
        for index in rules.indices {
            guard case .exactly(let host)? = rules[index].rule.hosts.first else { continue }
            let name = String(host.description.map { $0 == ":" ? "-" : $0 }.prefix(56))
            var id = name
            var number = 2
            while !ids.insert(id).inserted {
                id = "\(name)-\(number)"
                number += 1
            }
            rules[index].rule.id = id
        }
        return rules
    }

    /// The patterns of each method.
    private func patterns(at place: Place) -> [String: [String]] {
        var patterns = (paths[place] ?? [:]).mapValues { Self.patterns(for: $0) }
        for (method, absent) in absent[place] ?? [:] {
            let known = (patterns[method] ?? []).compactMap { RulePath($0) }
            let others = absent.filter { path in !known.contains { $0.covers(path) } }
            patterns[method, default: []] = ((patterns[method] ?? []) + others).sorted()
        }
        return patterns
    }

    private static func isUsual(_ method: String) -> Bool {
        guard let first = method.utf8.first, first &- UInt8(ascii: "A") < 26 else { return false }
        let bytes = method.utf8.allSatisfy {
            $0 &- UInt8(ascii: "A") < 26 || ASCII.isDigit($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
        }
        return bytes && method != "UPGRADE" && method != "CONNECT"
    }

    private static func words(_ keys: [String]) -> [String] {
        let methods = Set(keys.flatMap { $0.split(separator: " ").map(String.init) })
        let read: Set = ["GET", "HEAD", "OPTIONS"]
        let others = methods.filter { !read.contains($0) }.sorted()
        let reading = methods.filter { read.contains($0) }.sorted()
        return (reading.count > 1 ? ["read"] : reading) + others
    }

    // MARK: Paths

    /// The patterns that cover a set of paths, sorted.
    static func patterns(for paths: Set<String>) -> [String] {
        for limit in [namesAtOnePlace, 2, 1] {
            let tree = PathTree(paths, namesAtOnePlace: limit)
            // Comparing them is quadratic.
            guard tree.patternCount <= patternsCompared else { continue }
            let patterns = uncovered(tree.patterns.map { cut($0) })
            if patterns.count <= patternsOfRule { return patterns.sorted() }
        }
        // Too many different beginnings: what is left apart are the numbers of encoded slashes.
        let wide = Set(paths.map(widest))
        guard wide.count > patternsCompared else { return uncovered(Array(wide)).sorted() }
        let parts = Set(wide.map { $0.split(separator: "%2F", omittingEmptySubsequences: false).count })
        return parts.map { "/" + [String](repeating: "*", count: $0).joined(separator: "%2F") }.sorted()
    }

    /// As many patterns are compared with each other.
    private static let patternsCompared = 256

    /// A pattern with no more stars than a rule may have: a wider one, in which encoded slashes stay spelled.
    private static func cut(_ pattern: String) -> String {
        let stars = pattern.utf8.count { $0 == UInt8(ascii: "*") }
        return stars <= RulePath.starLimit ? pattern : widest(pattern)
    }

    private static func widest(_ path: String) -> String { "/" + wild(String(path.dropFirst())) }

    /// The patterns that no other one covers.
    private static func uncovered(_ patterns: [String]) -> [String] {
        let distinct = Array(Set(patterns))
        let compiled = distinct.map { RulePath($0) }
        return distinct.indices.filter { index in
            let example = String(distinct[index].map { $0 == "*" ? "~" : $0 })
            return !compiled.indices.contains { $0 != index && compiled[$0]?.covers(example) ?? false }
        }.map { distinct[$0] }
    }

    /// A name of a path, or a part with encoded slashes, with stars for what may differ.
    static func wild(_ name: String) -> String {
        name.split(separator: "%2F", omittingEmptySubsequences: false).map {
            $0.hasPrefix("@") ? "@*" : $0.isEmpty ? "" : "*"
        }
        .joined(separator: "%2F")
    }

    /// Whether a name looks like one of many: a number, a digest, a UUID, a token.
    static func isID(_ name: String) -> Bool {
        let bytes = Array(name.utf8)
        let digits = bytes.count(where: ASCII.isDigit)
        if digits == bytes.count { return !bytes.isEmpty }
        let hexadecimal = bytes.count { ASCII.hexadecimalValue($0) != nil || $0 == UInt8(ascii: "-") }
        if hexadecimal == bytes.count, bytes.count >= 8, digits > 0 { return true }
        return bytes.count >= 16 && digits >= 3
            && bytes.allSatisfy {
                ASCII.isDigit($0) || ASCII.isLetter($0) || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
            }
    }
}

/// Paths by their segments. A class, because branches are merged.
private final class PathTree {
    private var branches: [String: PathTree] = [:]
    private var isEnd = false

    private init() {}

    /// What is deeper in a path counts as one name: clients choose paths, and a tree costs more than its paths.
    static let depth = 32

    init(_ paths: Set<String>, namesAtOnePlace limit: Int) {
        for path in paths {
            var tree = self
            let segments = path.dropFirst()
                .split(separator: "/", maxSplits: Self.depth - 1, omittingEmptySubsequences: false)
            for (index, segment) in segments.enumerated() {
                let segment = String(segment)
                let isRest = index == Self.depth - 1 && segment.contains("/")
                let name = RequestLearner.isID(segment) ? "*" : isRest ? RequestLearner.wild(segment) : segment
                tree = tree.branch(name)
            }
            tree.isEnd = true
        }
        merge(limit)
    }

    private func branch(_ name: String) -> PathTree {
        if let known = branches[name] { return known }
        let new = PathTree()
        branches[name] = new
        return new
    }

    /// Makes stars of the names of branches, where there are more than `limit`.
    private func merge(_ limit: Int) {
        if branches.count > limit {
            let former = branches
            branches = [:]
            for (name, tree) in former { branch(RequestLearner.wild(name)).take(tree) }
        }
        for tree in branches.values { tree.merge(limit) }
    }

    private func take(_ other: PathTree) {
        isEnd = isEnd || other.isEnd
        for (name, tree) in other.branches { branch(name).take(tree) }
    }

    var patternCount: Int { branches.values.reduce(isEnd ? 1 : 0) { $0 + $1.patternCount } }

    var patterns: [String] {
        (isEnd ? [""] : []) + branches.flatMap { name, tree in tree.patterns.map { "/\(name)\($0)" } }
    }
}
