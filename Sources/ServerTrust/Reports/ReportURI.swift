public import HTTPCore

/// Where reports of failed pins are sent (RFC 7469, section 2.1.3).
public struct ReportURI: Hashable, Sendable, CustomStringConvertible {
    /// As written.
    public let description: String
    package let url: AbsoluteURL

    /// Why a text is no address for reports.
    public enum Fault: Error, Hashable, Sendable {
        /// No absolute URI in ASCII with a host that is one.
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

    /// Where the reports go: the authority's host.
    public var host: Host { url.origin.host }
    /// The authority's port; 80 or 443 by the scheme where it names none.
    public var port: UInt16 { url.origin.port }

    /// Path and query as they go on the wire.
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
