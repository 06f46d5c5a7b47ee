// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration

/// Keeps a client that only knows the proxy with the proxy: in the response to an upgraded request, or through a
/// gateway, everything that would make the client use TLS of its own is changed.
///
/// URLs in `Location`, `Content-Location`, `Refresh`, `Link`, `Access-Control-Allow-Origin` and challenges that point to
/// https on a host that would be upgraded too become http (or the gateway's own). `Strict-Transport-Security` and
/// `Alt-Svc` are removed. Cookies lose attributes that a client would reject over plain HTTP, or from the gateway's name.
/// After redirects that the proxy has followed, relative URLs become absolute, because the client would resolve them
/// against another URL.
///
/// An object, because most responses need none.
final class ResponseRewriter {
    private let mode: URLRewriter.Mode
    private let urls: URLRewriter
    private let listener: ListenerConfiguration
    private let clientAuthority: [UInt8]
    private let hasBase: Bool
    /// The client's Origin, as it sent it and as the origin got it.
    private let page: (sent: [UInt8], forOrigin: [UInt8])?
    private var budget = URLRewriter.Budget()

    /// - Parameters:
    ///   - router: of the current policy: fields are rewritten for the client's next request.
    ///   - clientAuthority: host and port as a gateway's client wrote them in Host.
    ///   - clientOrigin: the value of Origin in the client's request; nil without one.
    ///   - base: the URL that the response came from when redirects were followed.
    private init(
        _ mode: URLRewriter.Mode,
        _ listener: ListenerConfiguration,
        _ router: Router,
        clientAuthority: [UInt8],
        clientOrigin: [UInt8]?,
        base: AbsoluteURL?
    ) {
        self.mode = mode
        page = clientOrigin.flatMap { sent in
            let toOrigin = URLRewriter(
                mode: mode,
                direction: .toOrigin,
                router: router,
                upstream: listener.upstream,
                clientAuthority: clientAuthority,
                isTLS: listener.tls != nil
            )
            return toOrigin.rewritten(url: sent.span).map { (sent, $0) }
        }
        self.listener = listener
        self.clientAuthority = clientAuthority
        hasBase = base != nil
        urls = URLRewriter(
            mode: mode,
            router: router,
            upstream: listener.upstream,
            clientAuthority: clientAuthority,
            isTLS: listener.tls != nil,
            base: base
        )
    }

    /// The rewriter for a response; nil when its URLs are the client's, as in most.
    ///
    /// - Parameters:
    ///   - head: of the client's request.
    ///   - base: the URL that the response came from, if redirects were followed.
    @inline(__always)
    static func make(
        for response: borrowing ResponseHead,
        to head: borrowing RequestHead,
        on route: Route,
        _ listener: ListenerRoutes,
        _ router: @autoclosure () -> Router,
        base: @autoclosure () -> AbsoluteURL?
    ) -> ResponseRewriter? {
        guard response.fields.mayContain(anyOf: names) else { return nil }
        let origin = head.fields.first(.origin).map { Array(copying: head.fields.value(at: $0)) }
        return make(
            on: route,
            listener.configuration,
            router(),
            clientAuthority: listener.clientAuthority(of: head),
            clientOrigin: origin,
            base: base()
        )
    }

    /// The rewriter for a response with one of `names`.
    static func make(
        on route: Route,
        _ listener: ListenerConfiguration,
        _ router: Router,
        clientAuthority: [UInt8],
        clientOrigin: [UInt8]?,
        base: AbsoluteURL?
    ) -> ResponseRewriter? {
        let mode = URLRewriter.Mode(for: route, at: listener.mode)
        guard base != nil || mode != .off else { return nil }
        return ResponseRewriter(
            mode,
            listener,
            router,
            clientAuthority: clientAuthority,
            clientOrigin: clientOrigin,
            base: base
        )
    }

    /// The fields that may be rewritten.
    static let names: FieldNameSet = [
        .strictTransportSecurity, .altSvc, .location, .contentLocation, .refresh, .setCookie, .wwwAuthenticate, .link,
        .accessControlAllowOrigin,
    ]

    /// Writes the field in its changed form, or drops it.
    ///
    /// - Returns: false when the field is unchanged and still has to be written.
    func rewrite<Output: HeadOutput & ~Copyable>(
        _ id: FieldName,
        at index: Int,
        of fields: borrowing HeaderFields,
        to output: inout Output
    ) -> Bool {
        if mode == .off, !hasBase { return false }
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
                keepsSecure: isGateway && listener.tls != nil
            )
            return write(rewriter.rewritten(fields.value(at: index)), for: index, of: fields, to: &output)
        case .accessControlAllowOrigin:
            // The page that may read the response, under the name that it has for itself.
            guard let page, fields.value(at: index).equals(page.forOrigin.span) else { return false }
            return write(page.sent, for: index, of: fields, to: &output)
        case .wwwAuthenticate:
            let value = urls.rewritten(challenge: fields.value(at: index), &budget)
            return writeOrOmit(value, for: index, of: fields, to: &output)
        case .link:
            let value = urls.rewritten(link: fields.value(at: index), &budget)
            return writeOrOmit(value, for: index, of: fields, to: &output)
        default:
            return false
        }
    }

    /// The upstream of a gateway that the client knows by another name: cookies for the upstream are not valid for that
    /// name.
    private var foreignUpstream: Host? {
        guard let upstream = listener.upstream else { return nil }
        let authority = clientAuthority
        let end = authority.lastIndex(of: UInt8(ascii: ":")) ?? authority.endIndex
        let name = authority[..<end]
        return Array(name).span.equalsIgnoringCase(upstream.host.bytes.span) ? nil : upstream.host
    }

    /// Writes a value, but an empty one not: the field has more URLs than any response, and a part of them would lead past the proxy.
    private func writeOrOmit<Output: HeadOutput & ~Copyable>(
        _ value: [UInt8]?,
        for index: Int,
        of fields: borrowing HeaderFields,
        to output: inout Output
    ) -> Bool {
        if let value, value.isEmpty { return true }
        return write(value, for: index, of: fields, to: &output)
    }

    private func write<Output: HeadOutput & ~Copyable>(
        _ value: [UInt8]?,
        for index: Int,
        of fields: borrowing HeaderFields,
        to output: inout Output
    ) -> Bool {
        guard let value else { return false }
        output.append(name: fields.name(at: index), value)
        return true
    }
}
