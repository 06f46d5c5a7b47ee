import HTTPCore
import IOCore

/// Gives an origin the URLs that its own clients would name, in the request of a client that knows it by another one: the mirror
/// image of `ResponseRewriter`.
///
/// An upgraded client writes http where the origin knows https; a gateway's client writes the gateway. Servers compare such URLs
/// with their own: `Destination` and `If` of WebDAV (RFC 4918, sections 10.3 and 10.4), and `Origin` and `Referer` against forged
/// requests.
struct RequestRewriter {
    private let urls: URLRewriter

    /// The rewriter for a request; nil when none of its fields may have to be changed, as in most requests.
    ///
    /// - Parameter clientAuthority: host and port as a gateway's client wrote them in Host.
    static func make(
        for fields: borrowing HeaderFields,
        on route: Route?,
        isGateway: Bool,
        listener: @autoclosure () -> ListenerConfiguration,
        router: @autoclosure () -> Router,
        clientAuthority: @autoclosure () -> [UInt8]
    ) -> RequestRewriter? {
        guard let route else { return nil }
        let mode = URLRewriter.Mode(for: route, isGateway: isGateway)
        guard mode != .off, isNeeded(for: fields) else { return nil }
        let listener = listener()
        return RequestRewriter(
            urls: URLRewriter(
                mode: mode,
                direction: .toOrigin,
                router: router(),
                upstream: listener.upstream,
                clientAuthority: clientAuthority(),
                isTLS: listener.tls != nil
            )
        )
    }

    private static let names: FieldNameSet = [.origin, .referer, .contentLocation]

    private static func isNeeded(for fields: borrowing HeaderFields) -> Bool {
        if fields.containsAny(of: names) { return true }
        guard fields.contains(.other) else { return false }
        for index in 0..<fields.count where fields.id(at: index) == .other && form(of: fields.name(at: index)) != nil {
            return true
        }
        return false
    }

    private enum Form {
        case url, list, links
    }

    /// The form of the values of a field that is not among the known ones; nil when they hold no URL.
    private static func form(of name: borrowing Span<UInt8>) -> Form? {
        switch name.count {
        case 2: name.equalsIgnoringCase("If") ? .list : nil
        case 4: name.equalsIgnoringCase("Link") ? .links : nil
        case 11: name.equalsIgnoringCase("Destination") ? .url : nil
        default: nil
        }
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
        let value: [UInt8]?
        switch id {
        case .origin, .referer, .contentLocation: value = urls.rewritten(fields.value(at: index))
        case .other:
            switch Self.form(of: fields.name(at: index)) {
            case .url: value = urls.rewritten(fields.value(at: index))
            case .list: value = urls.rewritten(condition: fields.value(at: index))
            case .links: value = urls.rewritten(link: fields.value(at: index))
            case nil: value = nil
            }
        default: value = nil
        }
        guard let value else { return false }
        output.append(name: fields.name(at: index), value: value.span)
        return true
    }
}
