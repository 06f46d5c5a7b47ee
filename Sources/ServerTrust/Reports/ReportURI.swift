// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// An address for reports of failed pins (RFC 7469, section 2.1.3).
public struct ReportURI: Hashable, Sendable, CustomStringConvertible {
    /// The address as written.
    public let description: String
    package let url: AbsoluteURL

    /// The reason why a text is not an address for reports.
    public enum Fault: Error, Hashable, Sendable {
        /// Not an absolute URI in ASCII with a valid host.
        case malformed
        /// Another scheme than `http` and `https`.
        case scheme
        /// A user's name or password.
        case userInformation
        /// A fragment, which is never sent.
        case fragment
    }

    /// - Parameter text: an absolute `http` or `https` URI.
    public init(_ text: String) throws(Fault) {
        let bytes = Array(text.utf8)
        guard let url = AbsoluteURL(bytes.span) else { throw Self.fault(bytes) }
        guard !url.rest.contains(UInt8(ascii: "#")) else { throw .fragment }
        self.url = url
        description = text
    }

    /// The host of the authority.
    public var host: Host { url.origin.host }
    /// The authority's port; if it has none, 80 or 443 by the scheme.
    public var port: UInt16 { url.origin.port }

    /// Scheme, host and port, without the path, in which a collector's token may stand.
    package var origin: Origin { url.origin }

    /// Path and query in the form of a request target.
    package var target: [UInt8] {
        url.rest.first == UInt8(ascii: "/") ? url.rest : [UInt8(ascii: "/")] + url.rest
    }

    private static func fault(_ text: [UInt8]) -> Fault {
        if case .otherScheme? = URLReference(text.span) { return .scheme }
        guard let slashes = text.firstIndex(of: UInt8(ascii: "/")), text.dropFirst(slashes).starts(with: "//".utf8)
        else { return .malformed }
        let delimiters = Array("/?#".utf8)
        let authority = text.dropFirst(slashes + 2).prefix { !delimiters.contains($0) }
        return authority.contains(UInt8(ascii: "@")) ? .userInformation : .malformed
    }

    public static func == (a: ReportURI, b: ReportURI) -> Bool { a.url == b.url }

    public func hash(into hasher: inout Hasher) { hasher.combine(url) }
}
