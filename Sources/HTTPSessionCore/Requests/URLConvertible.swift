// SPDX-License-Identifier: Apache-2.0
/// The URL of a request: text, or Foundation's `URL`. A manager resolves it against its `baseURL` unless it is absolute.
public protocol URLConvertible: Sendable {
    /// The URL as text.
    var urlText: String { get }
}

extension String: URLConvertible {
    /// The text itself.
    public var urlText: String { self }
}

extension Substring: URLConvertible {
    /// The text itself.
    public var urlText: String { String(self) }
}
