// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// The owner's rules for keys: what of a query identifies a resource, and which fields of a request do.
///
/// Two requests share a key only if a rule says so. Percent-encoding, the path, and everything that the rule does not
/// name stay as they are. A path with dot segments has no rule: the origin may read another path.
package struct CacheKeyRules: Hashable, Sendable {
    package var rules: [CacheRequestRule<CacheKeyTerms>]

    package init(_ rules: [CacheRequestRule<CacheKeyTerms>] = []) { self.rules = rules }

    package var isEmpty: Bool { rules.isEmpty }

    /// The key of a request.
    ///
    /// - Parameters:
    ///   - url: of the request to the origin.
    ///   - fields: of the request.
    ///   - matched: becomes the place of the rule that decides.
    /// - Returns: nil when there is none, because the fields that belong to it are too long. Then the request may not
    ///   use the cache.
    func key(
        of url: AbsoluteURL,
        method: HTTPMethod,
        fields: HeaderFields,
        partition: [UInt8],
        matched: inout Int?
    ) -> CacheKey? {
        let target = url.target
        guard let rule = rule(for: target.span) else {
            return CacheKey(method: method, origin: url.origin, target: target.span, partition: partition)
        }
        matched = rule.place
        guard let variant = rule.value.variant(of: fields) else { return nil }
        return CacheKey(
            method: method,
            origin: url.origin,
            target: rule.value.target(of: target.span).span,
            partition: partition,
            variant: variant
        )
    }

    /// The keys of GET whose URI is that of `url`, for removals, which find every partition and all values of added
    /// fields: the URL under the rules, and as it is, since it may have been stored before there was a rule.
    package func keys(of url: AbsoluteURL) -> [CacheKey] {
        let target = url.target
        let plain = CacheKey(method: .get, origin: url.origin, target: target.span)
        guard let rule = rule(for: target.span) else { return [plain] }
        let ruled = CacheKey(method: .get, origin: url.origin, target: rule.value.target(of: target.span).span)
        return ruled == plain ? [plain] : [ruled, plain]
    }

    private func rule(for target: borrowing Span<UInt8>) -> CacheRequestRule<CacheKeyTerms>? {
        guard !rules.isEmpty, !PathPattern.hasDotSegments(target) else { return nil }
        for rule in rules where rule.path?.matches(target) ?? true { return rule }
        return nil
    }

    /// What distinguishes these rules from others. Responses that were stored under others have other keys.
    package var digest: [UInt8] {
        var bytes: [UInt8] = []
        for rule in rules {
            let path = Array((rule.path?.text ?? "").utf8)
            bytes.append(counted: path)
            bytes.append(rule.value.sortsParameters ? 1 : 0)
            for list in [rule.value.ignoredParameters.map { Array($0.text.utf8) }, rule.value.fieldNames] {
                bytes.append(length: list.count)
                for text in list { bytes.append(counted: text) }
            }
        }
        return bytes
    }
}

/// The rules that identify the responses of some paths.
package struct CacheKeyTerms: Hashable, Sendable {
    /// The names of parameters of the query that are left out.
    package var ignoredParameters: [WildcardPattern]
    /// Whether the order of parameters with different names makes no difference.
    package var sortsParameters: Bool
    /// The names of fields whose values belong to the key, in lower case, sorted, each once.
    package let fieldNames: [[UInt8]]

    /// The values of all fields together are at most so long, in bytes, with what separates them.
    static let fieldBytesAtMost = 4096

    /// - Parameter fields: names in any case.
    package init(ignoredParameters: [WildcardPattern] = [], sortsParameters: Bool = false, fields: [String] = []) {
        self.ignoredParameters = ignoredParameters
        self.sortsParameters = sortsParameters
        fieldNames = Set(fields.map { $0.utf8.map(ASCII.lowercased) }).sorted { $0.lexicographicallyPrecedes($1) }
    }

    /// The target as it stands in the key.
    ///
    /// - Parameter target: path and query in origin form.
    func target(of target: borrowing Span<UInt8>) -> [UInt8] {
        let bytes = [UInt8](copying: target.extracting(0..<(target.firstIndex(of: UInt8(ascii: "#")) ?? target.count)))
        guard sortsParameters || !ignoredParameters.isEmpty, let mark = bytes.firstIndex(of: UInt8(ascii: "?")) else {
            return bytes
        }
        var parameters = bytes[(mark + 1)...].split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false)
        parameters.removeAll { isIgnored($0) }
        if sortsParameters { Self.sort(&parameters) }
        // A query of which nothing is left is none.
        guard !parameters.isEmpty else { return Array(bytes[..<mark]) }
        return Array(bytes[...mark]) + parameters.joined(separator: [UInt8(ascii: "&")])
    }

    /// Whether a parameter is left out. One that some origins read as several, or by another name, never is.
    private func isIgnored(_ parameter: ArraySlice<UInt8>) -> Bool {
        guard !ignoredParameters.isEmpty, !Self.isAmbiguous(parameter) else { return false }
        let name = Array(parameter.prefix { $0 != UInt8(ascii: "=") })
        guard name.allSatisfy(ASCII.isUnreserved) else { return false }
        return ignoredParameters.contains { $0.matches(name.span) }
    }

    /// Some origins end a parameter at `;`, or begin the query at its last `?`.
    private static func isAmbiguous(_ parameter: ArraySlice<UInt8>) -> Bool {
        parameter.contains { $0 == UInt8(ascii: ";") || $0 == UInt8(ascii: "?") }
    }

    /// Sorts by name. Parameters keep their order if their names could be one to an origin, and all of them do in an
    /// ambiguous query.
    private static func sort(_ parameters: inout [ArraySlice<UInt8>]) {
        guard parameters.count > 1, !parameters.contains(where: isAmbiguous) else { return }
        let named = parameters.enumerated().map { (name: foldedName($0.element), place: $0.offset, text: $0.element) }
        parameters = named.sorted {
            $0.name == $1.name ? $0.place < $1.place : $0.name.lexicographicallyPrecedes($1.name)
        }.map(\.text)
    }

    /// A name without what origins ignore or change in names: case, percent-encoding, signs, and what stands in brackets.
    private static func foldedName(_ parameter: ArraySlice<UInt8>) -> [UInt8] {
        var name: [UInt8] = []
        var position = parameter.startIndex
        while position < parameter.endIndex, parameter[position] != UInt8(ascii: "=") {
            var byte = parameter[position]
            position += 1
            if byte == UInt8(ascii: "%"), position + 1 < parameter.endIndex,
                let upper = ASCII.hexadecimalValue(parameter[position]),
                let lower = ASCII.hexadecimalValue(parameter[position + 1])
            {
                byte = upper << 4 | lower
                position += 2
            }
            if byte == UInt8(ascii: "[") || byte == 0 { break }
            if ASCII.isLetter(byte) || ASCII.isDigit(byte) { name.append(ASCII.lowercased(byte)) }
        }
        return name
    }

    /// The values of the fields that belong to the key: for each name its lines, all with their lengths, so that
    /// different values never give the same bytes. No line and an empty one differ.
    ///
    /// - Returns: nil when they are too long; empty when no field belongs to the key.
    func variant(of fields: HeaderFields) -> [UInt8]? {
        var bytes: [UInt8] = []
        for name in fieldNames {
            bytes.append(counted: name)
            var values: [[UInt8]] = []
            for index in 0..<fields.count where fields.name(at: index).equalsIgnoringCase(name.span) {
                values.append([UInt8](copying: fields.value(at: index)))
            }
            bytes.append(length: values.count)
            for value in values { bytes.append(counted: value) }
            guard bytes.count <= Self.fieldBytesAtMost else { return nil }
        }
        return bytes
    }

    /// The names of the fields in a key's variant.
    static func fieldNames(ofVariant variant: [UInt8]) -> [[UInt8]] {
        var names: [[UInt8]] = []
        var position = 0
        func length() -> Int? {
            guard position + 4 <= variant.count else { return nil }
            defer { position += 4 }
            return variant[position..<(position + 4)].reversed().reduce(0) { $0 << 8 | Int($1) }
        }
        func text() -> [UInt8]? {
            guard let count = length(), count <= variant.count - position else { return nil }
            defer { position += count }
            return Array(variant[position..<(position + count)])
        }
        while let name = text(), let lines = length() {
            names.append(name)
            var left = lines
            while left > 0, text() != nil { left -= 1 }
            if left > 0 { break }
        }
        return names
    }
}

extension [UInt8] {
    /// Appends a length as four bytes, the lowest first.
    mutating func append(length: Int) {
        for shift in [0, 8, 16, 24] { append(UInt8(truncatingIfNeeded: length >> shift)) }
    }

    /// Appends bytes behind their length.
    fileprivate mutating func append(counted bytes: [UInt8]) {
        append(length: bytes.count)
        append(contentsOf: bytes)
    }
}
