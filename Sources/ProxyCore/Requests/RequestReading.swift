package import HTTPCore

/// Why a part of a request can be read in two ways, or is not seen at all. Such a part fulfils no condition of a rule that lets
/// requests through, and every condition of one that denies.
package enum RequestAmbiguity: String, CaseIterable, Sendable {
    /// A CONNECT of a tunnel, whose requests are not seen.
    case tunnel
    case dotSegment
    case emptySegment
    case backslash
    case semicolon
    case doubleEncoding
    case encodedSlash
    case encodedControl
    case malformedEncoding
    case overlongEncoding
    /// The target has no path: `*` of OPTIONS.
    case noPath
    /// The path is so long, and the rules that would have to be compared with it are so many, that they are not.
    case longPath
    case methodOverride
    case urlOverride

    /// For error responses: what it is, and what helps.
    package var explanation: String {
        switch self {
        case .tunnel: "the requests in a tunnel are not seen. Let the host be intercepted (\"connect\": \"intercept\")"
        case .dotSegment: "its path has a segment \".\" or \"..\", also encoded. Send the path without"
        case .emptySegment: "its path has two slashes together, which some servers take for one. Send one"
        case .backslash: "its path has a backslash, which is a slash to some servers. Send a slash, or another name"
        case .semicolon: "its path has a \";\", behind which some servers see a parameter. Send the path without"
        case .doubleEncoding: "its path is percent-encoded twice (%25 before two digits). Encode it once"
        case .encodedSlash:
            "its path has an encoded slash (%2F), which is a slash to some servers. A rule's path has to spell it: \"/@*%2F*\""
        case .encodedControl: "its path has an encoded control character. Send the path without"
        case .malformedEncoding: "its path has a \"%\" without two hexadecimal digits. Encode the percent sign as %25"
        case .overlongEncoding:
            "its path has an overlong form of UTF-8, which some servers decode. Send the path without"
        case .longPath:
            "its path is too long to be compared with all rules of its host. Send a shorter path, or write fewer rules with stars"
        case .noPath: "it is for the server as a whole and has no path"
        case .methodOverride:
            "a field or parameter (X-HTTP-Method-Override and its kind, _method) may replace its method. Send the request with the "
                + "method that is meant"
        case .urlOverride:
            "a field (X-Original-URL, X-Rewrite-URL) may replace its URL. Send the request to the URL that is meant"
        }
    }
}

/// How the parts of a request read, as a value: which of them may mean something else to a server than to a rule.
package struct RequestReading: Equatable, Sendable {
    /// Nil: the path has one reading, apart from encoded slashes.
    package private(set) var path: RequestAmbiguity?
    package private(set) var method: RequestAmbiguity?
    /// The number of `%2F` in the path.
    package private(set) var encodedSlashes = 0
    /// Where the path ends in the target.
    private(set) var pathEnd = 0

    /// A request of which neither path nor method is known.
    static let unseen: RequestReading = {
        var reading = RequestReading()
        reading.path = .tunnel
        reading.method = .tunnel
        return reading
    }()

    private init() {}

    /// - Parameter target: path and query in origin form.
    package init(target: borrowing Span<UInt8>, fields: borrowing HeaderFields) {
        let end = Self.endOfPath(target)
        pathEnd = end
        read(target.extracting(0..<end))
        if Self.hasMethodParameter(target.extracting(end..<target.count)) { method = .methodOverride }
        let overridden = Self.override(fields)
        if overridden.contains(.method) { method = .methodOverride }
        if overridden.contains(.url) { path = path ?? .urlOverride }
    }

    /// What the fields of a request may replace.
    struct Overridden: OptionSet {
        let rawValue: UInt8
        static let method = Overridden(rawValue: 1)
        static let url = Overridden(rawValue: 2)
    }

    static func override(_ fields: borrowing HeaderFields) -> Overridden {
        var found: Overridden = []
        guard fields.mayContain(anyOf: [.other]) else { return found }
        for index in 0..<fields.count where fields.id(at: index) == .other {
            found.formUnion(override(fields.name(at: index)))
        }
        return found
    }

    init(path: borrowing Span<UInt8>) { read(path) }

    static func endOfPath(_ target: borrowing Span<UInt8>) -> Int {
        for index in 0..<target.count where target[index] == UInt8(ascii: "?") || target[index] == UInt8(ascii: "#") {
            return index
        }
        return target.count
    }

    // MARK: The path

    private mutating func read(_ path: borrowing Span<UInt8>) {
        guard path.count > 0, path[0] == UInt8(ascii: "/") else {
            self.path = .noPath
            return
        }
        var position = 1
        // The bytes of the segment so far, and how many of them are dots.
        var (length, dots) = (0, 0)
        while position < path.count {
            var byte = path[position]
            var isEncoded = false
            if byte == UInt8(ascii: "%") {
                guard let decoded = Self.decoded(path, at: position) else { return note(.malformedEncoding) }
                if decoded == UInt8(ascii: "%"), Self.isHexadecimal(path, at: position + 3) { note(.doubleEncoding) }
                if Self.isOverlong(decoded, path, at: position) { note(.overlongEncoding) }
                if decoded < 0x20 || decoded == 0x7F { note(.encodedControl) }
                byte = decoded
                isEncoded = true
            }
            position += isEncoded ? 3 : 1
            switch byte {
            case UInt8(ascii: "/"):
                if isEncoded { encodedSlashes += 1 }
                if length == 0 { note(.emptySegment) }
                if length == dots, dots == 1 || dots == 2 { note(.dotSegment) }
                (length, dots) = (0, 0)
                continue
            case UInt8(ascii: "\\"): note(.backslash)
            case UInt8(ascii: ";"): note(.semicolon)
            case UInt8(ascii: "."): dots += 1
            default: break
            }
            length += 1
        }
        if length == dots, dots == 1 || dots == 2 { note(.dotSegment) }
    }

    private mutating func note(_ ambiguity: RequestAmbiguity) { if path == nil { path = ambiguity } }

    private static func decoded(_ text: borrowing Span<UInt8>, at position: Int) -> UInt8? {
        guard position + 2 < text.count, let upper = ASCII.hexadecimalValue(text[position + 1]),
            let lower = ASCII.hexadecimalValue(text[position + 2])
        else { return nil }
        return upper << 4 | lower
    }

    private static func isHexadecimal(_ text: borrowing Span<UInt8>, at position: Int) -> Bool {
        position + 1 < text.count && ASCII.hexadecimalValue(text[position]) != nil
            && ASCII.hexadecimalValue(text[position + 1]) != nil
    }

    /// Whether a byte begins an overlong form of UTF-8 (RFC 3629, section 3): C0 and C1 always do, E0 and F0 with some bytes behind.
    private static func isOverlong(_ byte: UInt8, _ path: borrowing Span<UInt8>, at position: Int) -> Bool {
        switch byte {
        case 0xC0, 0xC1: return true
        case 0xE0, 0xF0:
            guard position + 3 < path.count, path[position + 3] == UInt8(ascii: "%"),
                let next = decoded(path, at: position + 3)
            else { return false }
            return (0x80..<(byte == 0xE0 ? 0xA0 : 0x90)).contains(next)
        default: return false
        }
    }

    // MARK: What may replace method and URL

    /// Whether the query has a parameter that some frameworks take for the method.
    private static func hasMethodParameter(_ query: borrowing Span<UInt8>) -> Bool {
        let name: StaticString = "_method"
        var matched = 0
        var isAtName = true
        var position = 0
        while position < query.count {
            var byte = query[position]
            position += 1
            if byte == UInt8(ascii: "?") || byte == UInt8(ascii: "&") || byte == UInt8(ascii: ";") {
                if isAtName, matched == name.utf8CodeUnitCount { return true }
                (matched, isAtName) = (0, true)
                continue
            }
            if byte == UInt8(ascii: "%"), let decoded = decoded(query, at: position - 1) {
                byte = decoded
                position += 2
            }
            guard isAtName else { continue }
            if matched == name.utf8CodeUnitCount {
                // PHP and Rack take what stands in brackets for a part of the value.
                if byte == UInt8(ascii: "=") || byte == UInt8(ascii: "[") { return true }
                isAtName = false
            } else if matched == 0, byte == UInt8(ascii: "+") || byte == UInt8(ascii: " ") {
                // PHP drops white space before a name.
            } else if ASCII.lowercased(byte) == name.utf8Start[matched] {
                matched += 1
            } else {
                isAtName = false
            }
        }
        return isAtName && matched == name.utf8CodeUnitCount
    }

    /// What a field of that name may replace; `_` is `-` to servers behind CGI.
    private static func override(_ name: borrowing Span<UInt8>) -> Overridden {
        switch name.count {
        case 13: means(name, "x-http-method") ? .method : means(name, "x-rewrite-url") ? .url : []
        case 14: means(name, "x-original-url") ? .url : []
        case 17: means(name, "x-method-override") ? .method : []
        case 22: means(name, "x-http-method-override") ? .method : []
        default: []
        }
    }

    private static func means(_ name: borrowing Span<UInt8>, _ text: StaticString) -> Bool {
        for index in 0..<name.count {
            let byte = name[index] == UInt8(ascii: "_") ? UInt8(ascii: "-") : ASCII.lowercased(name[index])
            if byte != text.utf8Start[index] { return false }
        }
        return true
    }
}
