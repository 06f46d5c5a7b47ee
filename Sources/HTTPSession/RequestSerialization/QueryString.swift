public import SessionCore

/// Parameters as `name=value&…`, in the manner of AFNetworking unless options say otherwise.
///
/// A nested dictionary's names follow in brackets, `a[b]=1`; an array's elements are `a[]=1&a[]=2`; a set's are
/// `a=1&a=2`, sorted. Names of a dictionary are sorted by UTF-16 code units. Null is the name alone.
public struct QueryString: Sendable, Hashable {
    /// How the elements of arrays are named.
    public enum ArrayEncoding: Sendable, Hashable {
        /// `a[]=1&a[]=2`
        case brackets
        /// `a=1&a=2`
        case noBrackets
        /// `a[0]=1&a[1]=2`
        case indexInBrackets
    }

    /// How booleans are written.
    public enum BoolEncoding: Sendable, Hashable {
        /// 1 and 0.
        case numeric
        /// `true` and `false`.
        case literal
    }

    /// How null is written.
    public enum NullEncoding: Sendable, Hashable {
        /// `a`
        case keyOnly
        /// `a=`
        case emptyValue
        /// `a=null`
        case nullAsString
        /// Nothing.
        case dropKey
    }

    /// How spaces are written.
    public enum SpaceEncoding: Sendable, Hashable {
        /// `%20`
        case percentEscaped
        /// `+`, as forms of HTML have it.
        case plusReplaced
    }

    /// `a[]=1`, unless told otherwise.
    public var arrayEncoding = ArrayEncoding.brackets
    /// 1 and 0, unless told otherwise.
    public var boolEncoding = BoolEncoding.numeric
    /// The name alone, unless told otherwise.
    public var nullEncoding = NullEncoding.keyOnly
    /// `%20`, unless told otherwise.
    public var spaceEncoding = SpaceEncoding.percentEscaped
    /// Whether a dictionary's names are sorted; else they keep their order.
    public var sortsNames = true

    /// AFNetworking's rules.
    public init() {}

    /// One name and its value, not escaped.
    public struct Pair: Sendable, Hashable {
        /// With its brackets.
        public var name: String
        /// nil: the name stands alone.
        public var value: String?
    }

    /// The pairs, in their order and not escaped.
    public func pairs(of parameters: OrderedMembers<ParameterValue>) -> [Pair] {
        var pairs: [Pair] = []
        append(.dictionary(parameters), named: nil, to: &pairs)
        return pairs
    }

    /// The whole text, escaped.
    ///
    /// - Throws: `requestInvalid` when the encoding has no word for a character, or is one of two bytes a character.
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
        case .bool, .int, .unsigned, .double, .string:
            pairs.append(Pair(name: name ?? "", value: value.text))
        }
    }

    /// What a value would be in a query, to sort it by.
    static func unescaped(_ value: ParameterValue) -> String {
        var pairs: [Pair] = []
        QueryString().append(value, named: "", to: &pairs)
        return pairs.map { pair in pair.value.map { "\(pair.name)=\($0)" } ?? pair.name }.joined(separator: "&")
    }
}
