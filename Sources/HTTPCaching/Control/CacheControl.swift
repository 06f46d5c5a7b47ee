// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// The directives of a message's Cache-Control fields (RFC 9111 5.2, RFC 5861, RFC 8246).
///
/// Directives are read in any case, with their argument as a token or quoted. Unknown ones are ignored. If a directive
/// occurs twice with different arguments, or its argument is not a number of seconds, the strictest reading applies, as
/// RFC 9111 4.2.1 advises: the response is stale.
public struct CacheControl: Hashable, Sendable {
    /// The part of a response that `no-cache` and `private` apply to.
    public enum Scope: Hashable, Sendable {
        /// The response as a whole.
        case wholeResponse
        /// These field names, in lower case; at most 64. A directive that names more counts as one about the whole
        /// response.
        case fields([String])

        /// Whether the scope includes this field, given in lower case.
        func names(_ field: String) -> Bool {
            guard case .fields(let names) = self else { return true }
            return names.contains(field)
        }
    }

    /// The permitted staleness (`max-stale` of a request).
    public enum StalenessLimit: Hashable, Sendable {
        /// Stale by any time.
        case any
        /// Stale by at most this number of seconds.
        case seconds(Int)
    }

    /// Seconds; a number above 2^31 counts as that (RFC 9111 1.2.2).
    public private(set) var maxAge: Int?
    /// Seconds; for shared caches it replaces `maxAge`.
    public private(set) var sharedMaxAge: Int?
    /// `min-fresh` of a request: the remaining freshness that it demands, in seconds.
    public private(set) var minFresh: Int?
    /// `max-stale` of a request; nil when stale responses are not accepted.
    public private(set) var maxStale: StalenessLimit?
    /// How long a stale response may be used while it is revalidated, in seconds (RFC 5861 3).
    public private(set) var staleWhileRevalidate: Int?
    /// How long a stale response may replace an error response, in seconds (RFC 5861 4).
    public private(set) var staleIfError: Int?
    /// `no-cache`: the part that is validated before each use; nil without it.
    public private(set) var noCache: Scope?
    /// `private`: the part that a shared cache must not store; nil without it.
    public private(set) var isPrivate: Scope?
    /// `no-store`: nothing of the message is stored.
    public private(set) var noStore = false
    /// `no-transform`: the content is not changed on its way.
    public private(set) var noTransform = false
    /// `only-if-cached` of a request: a stored response, or 504.
    public private(set) var onlyIfCached = false
    /// `must-revalidate`: never used stale without a validation.
    public private(set) var mustRevalidate = false
    /// `proxy-revalidate`: the same for shared caches alone.
    public private(set) var proxyRevalidate = false
    /// `must-understand`: stored only if the rules of its status are known; then `no-store` beside it does not count.
    public private(set) var mustUnderstand = false
    /// `public`: shared caches may store it, also where they otherwise would not.
    public private(set) var isPublic = false
    /// `immutable`: it does not change while it is fresh (RFC 8246).
    public private(set) var immutable = false
    /// Whether a directive could not be parsed. It may have been a prohibition, so that nothing is stored then.
    public private(set) var isMalformed = false

    private static let largestSeconds = 2_147_483_648

    /// The equivalent of `Pragma: no-cache` (RFC 9111 5.4).
    static let noCache: CacheControl = {
        var control = CacheControl(HeaderFields())
        control.noCache = .wholeResponse
        return control
    }()

    /// Takes directives of a request back.
    mutating func ignore(_ directives: IgnoredDirectives) {
        if directives.contains(.noCache) { noCache = nil }
        if directives.contains(.noStore) { noStore = false }
        if directives.contains(.maxAge) { maxAge = nil }
        if directives.contains(.minFresh) { minFresh = nil }
    }

    /// The directives of these fields.
    public init(_ fields: HeaderFields) {
        var found = fields.first(.cacheControl)
        while let index = found {
            let value = fields.value(at: index)
            var members = ListMembers()
            while let range = members.next(in: value) {
                parseDirective(value.extracting(range))
            }
            found = fields.next(.cacheControl, after: index)
        }
    }

    private mutating func parseDirective(_ directive: borrowing Span<UInt8>) {
        // A list may have empty members (RFC 9110 5.6.1).
        guard directive.count > 0 else { return }
        let equals = directive.firstIndex(of: UInt8(ascii: "="))
        let name = directive.extracting(0..<(equals ?? directive.count))
        guard HeaderFields.isValidName(name) else {
            isMalformed = true
            return
        }
        var argument: [UInt8]?
        if let equals {
            argument = Self.unquoted(directive.extracting(equals + 1..<directive.count))
            if argument == nil { isMalformed = true }
        }
        applyFlag(name, argument)
        applySeconds(name, argument)
    }

    /// The argument type of a response directive (RFC 9111 5.2.2, RFC 5861, RFC 8246).
    enum ArgumentType {
        case none, seconds
        /// Field names, or no argument.
        case names

        /// - Parameter directive: in lower case.
        /// - Returns: nil for a directive that is not known.
        init?(of directive: [UInt8]) {
            switch String(decoding: directive, as: UTF8.self) {
            case "no-store", "no-transform", "only-if-cached", "must-revalidate", "proxy-revalidate", "must-understand",
                "public", "immutable":
                self = .none
            case "max-age", "s-maxage", "stale-while-revalidate", "stale-if-error", "min-fresh", "max-stale":
                self = .seconds
            case "no-cache", "private": self = .names
            default: return nil
            }
        }
    }

    mutating func noteMalformed() { isMalformed = true }

    /// Applies a directive of a targeted field (RFC 9213 2.1).
    mutating func applyDirective(_ name: [UInt8], argument: [UInt8]?) {
        applyFlag(name.span, argument)
        applySeconds(name.span, argument)
    }

    private mutating func applyFlag(_ name: borrowing Span<UInt8>, _ argument: [UInt8]?) {
        if name.equalsIgnoringCase("no-store") { noStore = true }
        if name.equalsIgnoringCase("no-transform") { noTransform = true }
        if name.equalsIgnoringCase("only-if-cached") { onlyIfCached = true }
        if name.equalsIgnoringCase("must-revalidate") { mustRevalidate = true }
        if name.equalsIgnoringCase("proxy-revalidate") { proxyRevalidate = true }
        if name.equalsIgnoringCase("must-understand") { mustUnderstand = true }
        if name.equalsIgnoringCase("public") { isPublic = true }
        if name.equalsIgnoringCase("immutable") { immutable = true }
        if name.equalsIgnoringCase("no-cache") { noCache = Self.merged(noCache, Self.scope(argument)) }
        if name.equalsIgnoringCase("private") { isPrivate = Self.merged(isPrivate, Self.scope(argument)) }
    }

    private mutating func applySeconds(_ name: borrowing Span<UInt8>, _ argument: [UInt8]?) {
        if name.equalsIgnoringCase("max-age") { maxAge = Self.freshness(maxAge, argument) }
        if name.equalsIgnoringCase("s-maxage") { sharedMaxAge = Self.freshness(sharedMaxAge, argument) }
        if name.equalsIgnoringCase("stale-while-revalidate") {
            staleWhileRevalidate = Self.freshness(staleWhileRevalidate, argument)
        }
        if name.equalsIgnoringCase("stale-if-error") { staleIfError = Self.freshness(staleIfError, argument) }
        if name.equalsIgnoringCase("min-fresh") {
            // The strictest reading is the longest time here.
            minFresh = max(minFresh ?? 0, Self.seconds(argument) ?? Self.largestSeconds)
        }
        if name.equalsIgnoringCase("max-stale") {
            let limit: StalenessLimit = argument == nil ? .any : .seconds(Self.seconds(argument) ?? 0)
            maxStale = maxStale == nil || maxStale == limit ? limit : .seconds(0)
        }
    }

    // MARK: - Arguments

    /// The seconds of a directive that extends the use of a response: 0 if it is not a number, or occurs twice with
    /// different numbers.
    private static func freshness(_ known: Int?, _ argument: [UInt8]?) -> Int {
        guard let seconds = seconds(argument) else { return 0 }
        return known == nil || known == seconds ? seconds : 0
    }

    private static func seconds(_ argument: [UInt8]?) -> Int? {
        guard let argument, !argument.isEmpty, argument.allSatisfy(ASCII.isDigit) else { return nil }
        // A number that does not fit an Int is larger than the maximum, too.
        return min(DecimalNumber.parse(argument.span) ?? largestSeconds, largestSeconds)
    }

    private static func scope(_ argument: [UInt8]?) -> Scope {
        guard let argument else { return .wholeResponse }
        var names: [String] = []
        var members = ListMembers()
        while let range = members.next(in: argument.span) {
            guard !range.isEmpty else { continue }
            guard names.count < namesAtMost else { return .wholeResponse }
            names.append(String(decoding: argument[range].map(ASCII.lowercased), as: UTF8.self))
        }
        return names.isEmpty ? .wholeResponse : .fields(names)
    }

    private static func merged(_ known: Scope?, _ scope: Scope) -> Scope {
        guard let known else { return scope }
        guard case .fields(let left) = known, case .fields(let right) = scope,
            left.count + right.count <= namesAtMost
        else { return .wholeResponse }
        return .fields(left + right)
    }

    /// Each field of a response is looked up among the names.
    private static let namesAtMost = 64

    /// The text of an argument: a token unchanged, a quoted string without quotes and backslashes; nil for anything
    /// else.
    private static func unquoted(_ text: borrowing Span<UInt8>) -> [UInt8]? {
        var result: [UInt8] = []
        guard text.count > 0, text[0] == UInt8(ascii: "\"") else {
            guard HeaderFields.isValidName(text) else { return nil }
            for index in 0..<text.count { result.append(text[index]) }
            return result
        }
        var index = 1
        while index < text.count {
            switch text[index] {
            case UInt8(ascii: "\""):
                return index == text.count - 1 ? result : nil
            case UInt8(ascii: "\\"):
                index += 1
                guard index < text.count else { return nil }
                result.append(text[index])
            default:
                result.append(text[index])
            }
            index += 1
        }
        return nil
    }
}
