// SPDX-License-Identifier: Apache-2.0
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
    case encodedDelimiter
    case malformedEncoding
    case overlongEncoding
    /// The target has no path: `*` of OPTIONS.
    case noPath
    /// The path is so long, and the rules that would have to be compared with it are so many, that they are not.
    case longPath
    case methodOverride
    case urlOverride
    case hostOverride
    /// A second path, which the request is about too.
    case destination

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
        case .encodedDelimiter:
            "its path has an encoded question mark or number sign (%3F, %23), which ends the path for servers behind some servers. "
                + "Send the path without"
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
            "a field (X-Original-URL, X-Rewrite-URL, X-Forwarded-Prefix and their kind) may replace its URL. Send the request to the "
                + "URL that is meant, without the field"
        case .hostOverride:
            "a field (X-Forwarded-Host, Forwarded with host=, X-Host and their kind) may replace its host. Send the request to the "
                + "host that is meant, without the field"
        case .destination:
            "a field (Destination, X-Amz-Copy-Source and its kind) names a second path, which no rule looks at. Let a rule without "
                + "\"path\" allow the method"
        }
    }
}

/// How the parts of a request read, as a value: which of them may mean something else to a server than to a rule.
package struct RequestReading: Equatable, Sendable {
    /// Nil: the path has one reading, apart from encoded slashes.
    package private(set) var path: RequestAmbiguity?
    package private(set) var method: RequestAmbiguity?
    /// Then path and method are unclear, too: they may be meant for another host.
    package private(set) var host: RequestAmbiguity?
    /// The number of `%2F` in the path.
    package private(set) var encodedSlashes = 0
    /// What can be read in two ways of a request that is seen.
    package var ambiguity: RequestAmbiguity? { path == .tunnel ? nil : path ?? method }

    /// Where the path ends in the target.
    package private(set) var pathEnd = 0

    /// A request of which neither path nor method is known.
    package static let unseen: RequestReading = {
        var reading = RequestReading()
        reading.path = .tunnel
        reading.method = .tunnel
        return reading
    }()

    private init() {}

    /// - Parameter target: path and query in origin form.
    package init(target: borrowing Span<UInt8>, fields: borrowing HeaderFields) {
        self.init(target: target, Self.override(fields))
    }

    /// - Parameters:
    ///   - target: path and query in origin form.
    ///   - overridden: what the fields of the request may replace.
    package init(target: borrowing Span<UInt8>, _ overridden: Overridden) {
        let end = Self.endOfPath(target)
        pathEnd = end
        read(target.extracting(0..<end))
        if Self.hasMethodParameter(target.extracting(end..<target.count)) { method = .methodOverride }
        if !overridden.isEmpty { take(overridden) }
    }

    private mutating func take(_ overridden: Overridden) {
        if overridden.contains(.method) { method = .methodOverride }
        if overridden.contains(.url) { note(.urlOverride) }
        if overridden.contains(.destination) { note(.destination) }
        guard overridden.contains(.host) else { return }
        host = .hostOverride
        note(.hostOverride)
        if method == nil { method = .hostOverride }
    }

    /// What the fields of a request may replace.
    package struct Overridden: OptionSet {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        static let method = Overridden(rawValue: 1)
        static let url = Overridden(rawValue: 2)
        package static let host = Overridden(rawValue: 4)
        /// There is a second path.
        static let destination = Overridden(rawValue: 8)
    }

    /// What the fields of a request may replace, without a copy of them.
    package static func override(in head: borrowing RequestHead) -> Overridden { override(head.fields) }

    package static func override(_ fields: borrowing HeaderFields) -> Overridden {
        var found: Overridden = []
        guard fields.mayContain(anyOf: overriding) else { return found }
        for index in 0..<fields.count {
            switch fields.id(at: index) {
            case .other: found.formUnion(override(fields.name(at: index)))
            case .destination: found.insert(.destination)
            case .forwarded: if namesHost(fields.value(at: index)) { found.insert(.host) }
            default: break
            }
        }
        return found
    }

    package init(path: borrowing Span<UInt8>) { read(path) }

    private static let overriding: FieldNameSet = [.other, .destination, .forwarded]

    package static func endOfPath(_ target: borrowing Span<UInt8>) -> Int {
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
            // Raw ones end the path.
            case UInt8(ascii: "?"), UInt8(ascii: "#"): note(.encodedDelimiter)
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

    // MARK: What may replace method, URL and host

    /// Whether the query has a parameter that some frameworks take for the method: `_method`, and `_HttpMethod` (Salesforce).
    private static func hasMethodParameter(_ query: borrowing Span<UInt8>) -> Bool {
        var name: StaticString = "_method"
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
            guard isAtName else { continue }
            if byte == UInt8(ascii: "%"), let decoded = decoded(query, at: position - 1) {
                byte = decoded
                position += 2
            }
            if matched == name.utf8CodeUnitCount {
                if endsName(byte) { return true }
                isAtName = false
                continue
            }
            if matched == 0 {
                // PHP drops white space before a name, and qs the brackets around it.
                if byte == UInt8(ascii: "+") || byte == UInt8(ascii: " ") || isBracket(byte) { continue }
                // PHP makes an underscore of a dot.
                isAtName = byte == UInt8(ascii: "_") || byte == UInt8(ascii: ".")
                (matched, name) = (1, "_method")
                continue
            }
            let letter = ASCII.lowercased(byte)
            if matched == 1, letter == UInt8(ascii: "h") { name = "_httpmethod" }
            isAtName = letter == name.utf8Start[matched]
            matched += 1
        }
        return isAtName && matched == name.utf8CodeUnitCount
    }

    /// PHP and Rack take what stands in brackets for a part of the value, and PHP ends the name at NUL.
    private static func endsName(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "=") || byte == 0 || isBracket(byte) }

    private static func isBracket(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "[") || byte == UInt8(ascii: "]") }

    /// What a field of that name may replace; all punctuation is `-` to servers behind CGI.
    private static func override(_ name: borrowing Span<UInt8>) -> Overridden {
        guard name.count > 5, name[0] | 0x20 == UInt8(ascii: "x") else { return [] }
        switch name.count {
        case 6: return means(name, "x-host") ? .host : []
        case 11: return means(name, "x-copy-from") ? .destination : []
        case 13: return means(name, "x-http-method") ? .method : means(name, "x-rewrite-url") ? .url : []
        case 14: return means(name, "x-original-url") || means(name, "x-original-uri") ? .url : []
        case 15: return means(name, "x-forwarded-uri") ? .url : means(name, "x-original-host") ? .host : []
        case 16: return means(name, "x-forwarded-host") ? .host : means(name, "x-ms-copy-source") ? .destination : []
        case 17:
            return means(name, "x-method-override") ? .method : means(name, "x-amz-copy-source") ? .destination : []
        case 18: return means(name, "x-forwarded-prefix") ? .url : means(name, "x-goog-copy-source") ? .destination : []
        case 20: return means(name, "x-http-host-override") ? .host : []
        case 22: return means(name, "x-http-method-override") ? .method : []
        default: return []
        }
    }

    private static func means(_ name: borrowing Span<UInt8>, _ text: StaticString) -> Bool {
        for index in 1..<name.count {
            if CGIName.folded(name[index]) != text.utf8Start[index] { return false }
        }
        return true
    }

    /// Whether a value of Forwarded (RFC 7239, section 4) has the parameter `host`, or what may be taken for it.
    private static func namesHost(_ value: borrowing Span<UInt8>) -> Bool {
        let name: StaticString = "host"
        var matched = 0
        for index in 0..<value.count {
            let byte = ASCII.lowercased(value[index])
            if matched == name.utf8CodeUnitCount {
                if byte == UInt8(ascii: "=") { return true }
                if byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") { continue }
                matched = 0
            }
            matched = byte == name.utf8Start[matched] ? matched + 1 : byte == name.utf8Start[0] ? 1 : 0
        }
        return false
    }
}
