import HTTPCore
import IOCore

/// Keeps a client that only knows the proxy with the proxy: in the response to an upgraded request, or through a
/// gateway, everything that would make the client use TLS of its own is changed.
///
/// URLs in `Location`, `Content-Location`, `Refresh` and `Link` that point to https on a host that would be upgraded
/// too become http (or the gateway's own). `Strict-Transport-Security` and `Alt-Svc` are removed. Cookies lose
/// attributes that a client would reject over plain HTTP, or from the gateway's name. After redirects that the proxy
/// has followed, relative URLs become absolute, because the client would resolve them against another URL.
struct ResponseRewriter {
    private let mode: URLRewriter.Mode
    private let urls: URLRewriter
    private let context: ResponseContext

    init(_ context: borrowing ResponseContext) {
        self.context = copy context
        mode = Self.mode(context)
        urls = URLRewriter(mode: mode, context)
    }

    /// The fields that may be rewritten, beside `Link`.
    private static let names: FieldNameSet = [
        .strictTransportSecurity, .altSvc, .location, .contentLocation, .refresh, .setCookie,
    ]

    /// Whether a field may have to be rewritten: most responses have none of these.
    static func isNeeded(for fields: borrowing HTTPFields, _ context: borrowing ResponseContext) -> Bool {
        guard context.base != nil || mode(context) != .off else { return false }
        return fields.containsAny(of: names) || fields.first(.other) != nil && hasLink(fields)
    }

    private static func hasLink(_ fields: borrowing HTTPFields) -> Bool {
        for index in 0..<fields.count where fields.id(at: index) == .other && isLink(fields.name(at: index)) {
            return true
        }
        return false
    }

    private static func isLink(_ name: borrowing Span<UInt8>) -> Bool { name.equalsIgnoringCase("Link") }

    private static func mode(_ context: borrowing ResponseContext) -> URLRewriter.Mode {
        guard context.route.rewritesUpgraded else { return .off }
        if context.listener.isGateway { return .gateway }
        return context.route.isUpgraded ? .upgraded : .off
    }

    /// Writes the field in its changed form, or drops it.
    ///
    /// - Returns: false when the field is unchanged and still has to be written.
    func rewrite<Output: HeadOutput & ~Copyable>(
        _ id: FieldName,
        at index: Int,
        of fields: borrowing HTTPFields,
        to output: inout Output
    ) -> Bool {
        if mode == .off, context.base == nil { return false }
        switch id {
        case .strictTransportSecurity, .altSvc:
            return mode != .off
        case .location, .contentLocation:
            return write(urls.rewritten(fields.value(at: index)), for: index, of: fields, to: &output)
        case .refresh:
            return write(urls.rewritten(refresh: fields.value(at: index)), for: index, of: fields, to: &output)
        case .setCookie:
            guard mode != .off else { return false }
            let isGateway = mode == .gateway
            let rewriter = CookieRewriter(
                gateway: isGateway ? foreignUpstream : nil,
                keepsSecure: isGateway && context.listener.configuration.tls != nil
            )
            return write(rewriter.rewritten(fields.value(at: index)), for: index, of: fields, to: &output)
        case .other:
            guard Self.isLink(fields.name(at: index)) else { return false }
            return write(urls.rewritten(link: fields.value(at: index)), for: index, of: fields, to: &output)
        default:
            return false
        }
    }

    /// The upstream of a gateway that the client knows by another name: cookies for the upstream are not valid for that
    /// name.
    private var foreignUpstream: Host? {
        guard let upstream = context.listener.configuration.upstream else { return nil }
        let authority = context.clientAuthority
        let end = authority.lastIndex(of: UInt8(ascii: ":")) ?? authority.endIndex
        let name = authority[..<end]
        return Array(name).span.equalsIgnoringCase(upstream.host.bytes.span) ? nil : upstream.host
    }

    private func write<Output: HeadOutput & ~Copyable>(
        _ value: [UInt8]?,
        for index: Int,
        of fields: borrowing HTTPFields,
        to output: inout Output
    ) -> Bool {
        guard let value else { return false }
        output.append(name: fields.name(at: index), value)
        return true
    }
}
