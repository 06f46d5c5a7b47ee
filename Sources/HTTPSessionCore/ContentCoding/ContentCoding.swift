// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// A content coding that data tasks ask for and decode (RFC 9110, section 8.4.1).
package enum ContentCoding: Equatable {
    case gzip
    case deflate
    case other(ContentDecoder)

    /// The value of `Accept-Encoding` without further codings.
    static let accepted: StaticString = "gzip, deflate"

    /// The value with further codings.
    static func accepted(with others: [ContentDecoder]) -> String {
        (["gzip", "deflate"] + others.map(\.name)).joined(separator: ", ")
    }

    /// Whether the session may ask for codings: not when the caller does, or asks for a range, which would be one of
    /// the coded body.
    static func mayBeAskedFor(_ fields: HeaderFields) -> Bool {
        !fields.contains(.acceptEncoding) && !fields.contains(.range)
    }

    /// At most so many codings of one body are decoded.
    private static let limit = 2

    /// The codings of a response's body in the order in which the server has applied them; none unless all are known.
    static func of(_ head: borrowing ResponseHead, _ others: [ContentDecoder] = []) -> [ContentCoding] {
        if case .none = head.framing { return [] }
        return of(head.fields, others)
    }

    /// The codings that fields name, likewise: in one field or in several (RFC 9110, section 8.4).
    static func of(_ fields: borrowing HeaderFields, _ others: [ContentDecoder] = []) -> [ContentCoding] {
        var codings: [ContentCoding] = []
        var index = fields.first(.contentEncoding)
        while let line = index {
            let text = String(copying: fields.value(at: line))
            for name in text.split(separator: ",", omittingEmptySubsequences: true) {
                let name = name.trimmingBlanks.lowercased()
                switch name {
                case "gzip", "x-gzip": codings.append(.gzip)
                case "deflate": codings.append(.deflate)
                case "", "identity": break
                default:
                    guard let other = others.first(where: { $0.name == name }) else { return [] }
                    codings.append(.other(other))
                }
            }
            index = fields.next(.contentEncoding, after: line)
        }
        return codings.count <= limit ? codings : []
    }
}

extension Substring {
    /// Without spaces and tabs around.
    fileprivate var trimmingBlanks: Substring {
        let rest = drop { $0 == " " || $0 == "\t" }
        return rest.lastIndex { $0 != " " && $0 != "\t" }.map { rest[...$0] } ?? ""
    }
}
