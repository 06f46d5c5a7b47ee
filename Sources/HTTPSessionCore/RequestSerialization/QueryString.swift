// SPDX-License-Identifier: Apache-2.0
public import SessionCore

/// Writes parameters as `name=value&…`, by default in the manner of AFNetworking.
///
/// The names of a nested dictionary are in brackets, `a[b]=1`; the elements of an array are `a[]=1&a[]=2`, those of a
/// set `a=1&a=2`, sorted. The names of a dictionary are sorted by UTF-16 code units. Null is the name alone.
public struct QueryString: Sendable, Hashable {
    /// The names of array elements.
    public enum ArrayEncoding: Sendable, Hashable {
        /// `a[]=1&a[]=2`
        case brackets
        /// `a=1&a=2`
        case noBrackets
        /// `a[0]=1&a[1]=2`
        case indexInBrackets
    }

    /// The spelling of booleans.
    public enum BoolEncoding: Sendable, Hashable {
        /// 1 and 0.
        case numeric
        /// `true` and `false`.
        case literal
    }

    /// The spelling of null.
    public enum NullEncoding: Sendable, Hashable {
        /// `a`
        case keyOnly
        /// `a=`
        case emptyValue
        /// `a=null`
        case nullAsString
        /// The name is left out.
        case dropKey
    }

    /// The spelling of spaces.
    public enum SpaceEncoding: Sendable, Hashable {
        /// `%20`
        case percentEscaped
        /// `+`, as in HTML forms.
        case plusReplaced
    }

    /// The names of array elements; `a[]=1` by default.
    public var arrayEncoding = ArrayEncoding.brackets
    /// The spelling of booleans; 1 and 0 by default.
    public var boolEncoding = BoolEncoding.numeric
    /// The spelling of null; the name alone by default.
    public var nullEncoding = NullEncoding.keyOnly
    /// The spelling of spaces; `%20` by default.
    public var spaceEncoding = SpaceEncoding.percentEscaped
    /// Whether a dictionary's names are sorted; otherwise they keep their order.
    public var sortsNames = true

    /// A query string with AFNetworking's rules.
    public init() {}

    /// One name and its value, not escaped.
    public struct Pair: Sendable, Hashable {
        /// The name with its brackets.
        public var name: String
        /// The value; nil for a name alone.
        public var value: String?
    }

    /// The pairs, in order and not escaped.
    public func pairs(of parameters: OrderedMembers<ParameterValue>) -> [Pair] {
        var pairs: [Pair] = []
        append(.dictionary(parameters), named: nil, to: &pairs)
        return pairs
    }

    /// The escaped query string.
    ///
    /// - Throws: `requestInvalid` when the encoding cannot encode a character, or does not extend ASCII.
    public func text(
        of parameters: OrderedMembers<ParameterValue>,
        encoding: TextEncoding = .utf8
    ) throws(SessionError) -> String {
        var parts: [String] = []
        for pair in pairs(of: parameters) {
            let name = try escape(pair.name, encoding)
            if let value = pair.value {
                parts.append("\(name)=\(try escape(value, encoding))")
            } else {
                parts.append(name)
            }
        }
        return parts.joined(separator: "&")
    }

    private func escape(_ text: String, _ encoding: TextEncoding) throws(SessionError) -> String {
        guard let escaped = PercentEscaping.escape(text, encoding: encoding) else {
            throw SessionError(.requestInvalid, "A parameter cannot be written in \(encoding.charset).")
        }
        guard spaceEncoding == .plusReplaced else { return escaped }
        return escaped.split(separator: "%20", omittingEmptySubsequences: false).joined(separator: "+")
    }

    private func append(_ value: ParameterValue, named name: String?, to pairs: inout [Pair]) {
        switch value {
        case .dictionary(let members):
            for key in sortsNames ? members.keys.sorted(by: UTF16Order.precedes) : members.keys {
                guard let member = members[key] else { continue }
                append(member, named: name.map { "\($0)[\(key)]" } ?? key, to: &pairs)
            }
        case .array(let elements):
            let name = name ?? ""
            for (index, element) in elements.enumerated() {
                let suffix =
                    switch arrayEncoding {
                    case .brackets: "[]"
                    case .noBrackets: ""
                    case .indexInBrackets: "[\(index)]"
                    }
                append(element, named: name + suffix, to: &pairs)
            }
        case .set(let elements):
            for element in elements.sortedByText { append(element, named: name ?? "", to: &pairs) }
        case .null:
            switch nullEncoding {
            case .keyOnly: pairs.append(Pair(name: name ?? "", value: nil))
            case .emptyValue: pairs.append(Pair(name: name ?? "", value: ""))
            case .nullAsString: pairs.append(Pair(name: name ?? "", value: "null"))
            case .dropKey: break
            }
        case .bool(let flag) where boolEncoding == .literal:
            pairs.append(Pair(name: name ?? "", value: flag ? "true" : "false"))
        case .bool, .int, .unsigned, .double, .number, .string:
            pairs.append(Pair(name: name ?? "", value: value.text))
        }
    }

    /// The text by which a value is sorted.
    static func unescaped(_ value: ParameterValue) -> String {
        var pairs: [Pair] = []
        QueryString().append(value, named: "", to: &pairs)
        return pairs.map { pair in pair.value.map { "\(pair.name)=\($0)" } ?? pair.name }.joined(separator: "&")
    }
}
