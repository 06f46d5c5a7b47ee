// SPDX-License-Identifier: Apache-2.0
public import FoundationEssentials
public import HTTPCore
public import HTTPSessionCodable
public import HTTPSessionCore

/// A request as a `StubOrigin` has received it.
public struct StubRequest: Sendable {
    /// The method; after a redirect that of the new request.
    public let method: HTTPMethod
    /// The absolute URL in its normal form, with the query, without a fragment and without a default port.
    public let url: String
    /// The fields, those that the session has added (cookies, credentials, `Accept-Encoding`) among them; without `Host` and
    /// the fields that frame the message.
    public let headers: HTTPHeaders
    /// The whole body; empty without one.
    public let body: [UInt8]

    /// The path, as it stands in the URL: `/v1/items`.
    public var path: String { String(target.prefix { $0 != "?" }) }

    /// The query, as it stands in the URL, without the question mark; nil without one.
    public var query: String? {
        guard let mark = target.firstIndex(of: "?") else { return nil }
        return String(target[target.index(after: mark)...])
    }

    /// The body as UTF-8. Invalid bytes become U+FFFD.
    public var text: String { String(decoding: body, as: UTF8.self) }

    /// The first value of a field, by its name in any case.
    public func value(for name: String) -> String? { headers[name] }

    /// The body as JSON.
    ///
    /// - Throws: what the decoder throws.
    public func decoded<Value: Decodable>(
        _ type: Value.Type = Value.self,
        decoder: any DataDecoder = JSONDecoder()
    ) throws -> Value {
        try decoder.decode(type, from: body)
    }

    /// Path and query.
    private var target: Substring {
        guard let scheme = url.range(of: "://"),
            let slash = url[scheme.upperBound...].firstIndex(of: "/")
        else { return "/" }
        return url[slash...]
    }
}

extension String {
    /// The place of another text; nil when it has none.
    fileprivate func range(of text: String) -> Range<Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
            start = index(after: start)
        }
        return nil
    }
}
