// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration

/// Gives an origin the URLs that its own clients would name, in the request of a client that knows it by another one: the mirror
/// image of `ResponseRewriter`.
///
/// An upgraded client writes http where the origin knows https; a gateway's client writes the gateway. Servers compare such URLs
/// with their own: `Destination` and `If` of WebDAV (RFC 4918, sections 10.3 and 10.4), and `Origin` and `Referer` against forged
/// requests.
///
/// An object, because most requests need none.
final class RequestRewriter {
    private let urls: URLRewriter
    private var budget = URLRewriter.Budget()

    private init(_ urls: URLRewriter) { self.urls = urls }

    /// The fields that may be rewritten.
    static let names: FieldNameSet = [.origin, .referer, .contentLocation, .destination, .if, .link]

    /// The rewriter for a client's request; nil when its URLs are the origin's, as for most.
    ///
    /// - Parameters:
    ///   - head: of the client's request.
    ///   - route: of the client's request, also at the hops of redirects.
    @inline(__always)
    static func make(
        for head: borrowing RequestHead,
        on route: Route,
        _ listener: ListenerRoutes,
        _ router: @autoclosure () -> Router
    ) -> RequestRewriter? {
        guard head.fields.mayContain(anyOf: names) else { return nil }
        let authority = listener.clientAuthority(of: head)
        return make(on: route, listener.configuration, router(), clientAuthority: authority)
    }

    /// - Parameter clientAuthority: host and port as a gateway's client wrote them in Host.
    private static func make(
        on route: Route,
        _ listener: ListenerConfiguration,
        _ router: Router,
        clientAuthority: [UInt8]
    ) -> RequestRewriter? {
        let mode = URLRewriter.Mode(for: route, at: listener.mode)
        guard mode != .off else { return nil }
        return RequestRewriter(
            URLRewriter(
                mode: mode,
                direction: .toOrigin,
                router: router,
                upstream: listener.upstream,
                clientAuthority: clientAuthority,
                isTLS: listener.tls != nil
            )
        )
    }

    /// Appends the field in its changed form.
    ///
    /// - Returns: false when the field is unchanged and still has to be appended.
    func rewrite(
        _ id: FieldName,
        at index: Int,
        of fields: borrowing HeaderFields,
        to output: inout HeaderFields
    ) -> Bool {
        let value: [UInt8]? =
            switch id {
            case .origin, .referer, .contentLocation, .destination: urls.rewritten(fields.value(at: index))
            case .if: urls.rewritten(condition: fields.value(at: index), &budget)
            case .link: urls.rewritten(link: fields.value(at: index), &budget)
            default: nil
            }
        // With more URLs than any client sends the field stays as it is.
        guard let value, !value.isEmpty else { return false }
        output.append(name: fields.name(at: index), value: value.span)
        return true
    }
}
