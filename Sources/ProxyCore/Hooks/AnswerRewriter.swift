import HTTPCore
import IOCore

/// Keeps a client that knows only the proxy with the proxy: in the answer to an upgraded request, or through a
/// gateway, what would lead the client to TLS of its own is changed.
///
/// `Location` and `Content-Location` that point to https on a host that would be upgraded too become http (or the
/// gateway's own paths), `Strict-Transport-Security` goes, and `Set-Cookie` loses `Secure`, which a client that speaks
/// plain HTTP would not send back.
struct AnswerRewriter {
    private enum Mode {
        case off
        case upgraded
        case gateway
    }

    private let mode: Mode
    private let context: AnswerContext

    init(_ context: borrowing AnswerContext) {
        self.context = copy context
        if context.listener.isGateway {
            mode = context.route.rewritesUpgraded ? .gateway : .off
        } else {
            mode = context.route.isUpgraded && context.route.rewritesUpgraded ? .upgraded : .off
        }
    }

    /// Writes the field in its changed form, or drops it.
    ///
    /// - Returns: false when the field is to be written as it is.
    func rewrite(
        _ id: FieldName,
        at index: Int,
        of fields: borrowing HTTPFields,
        to output: inout ByteBuffer
    ) -> Bool {
        if case .off = mode { return false }
        switch id {
        case .strictTransportSecurity:
            return true
        case .location, .contentLocation:
            return rewriteLocation(at: index, of: fields, to: &output)
        case .setCookie:
            return rewriteCookie(at: index, of: fields, to: &output)
        default:
            return false
        }
    }

    private func rewriteLocation(at index: Int, of fields: borrowing HTTPFields, to output: inout ByteBuffer) -> Bool {
        let value = fields.value(at: index)
        guard case .absolute(let origin, let rest)? = URLReference(value), origin.scheme == .https else { return false }
        let host = origin.host
        switch mode {
        case .off:
            return false
        case .upgraded:
            // Port 80 over TLS has no http spelling: http on port 80 means https on 443.
            guard origin.port != 80, context.router.wouldUpgrade(host) else { return false }
            begin(fields, index, &output)
            output.append("http://")
            output.append(text: host.authorityText)
            if origin.port != 443 {
                output.append(":")
                output.append(decimal: Int(origin.port))
            }
        case .gateway:
            guard let upstream = context.listener.configuration.upstream, host == upstream.host,
                origin.port == upstream.port
            else { return false }
            begin(fields, index, &output)
            output.append("http://")
            output.append(context.clientAuthority)
        }
        output.append(value.extracting(rest))
        output.append("\r\n")
        return true
    }

    private func begin(_ fields: borrowing HTTPFields, _ index: Int, _ output: inout ByteBuffer) {
        output.append(fields.name(at: index))
        output.append(": ")
    }

    /// Takes the Secure attribute out (RFC 6265, section 5.2.5) and leaves the rest as it is.
    private func rewriteCookie(at index: Int, of fields: borrowing HTTPFields, to output: inout ByteBuffer) -> Bool {
        let value = fields.value(at: index)
        begin(fields, index, &output)
        var position = 0
        var first = true
        while position <= value.count {
            let end = value.firstIndex(of: UInt8(ascii: ";"), from: position) ?? value.count
            let part = value.extracting(position..<end)
            let text = part.extracting(part.trimmingBlanks(0..<part.count))
            if first || !text.equalsIgnoringCase("Secure") {
                if !first { output.append(";") }
                output.append(part)
            }
            first = false
            position = end + 1
        }
        output.append("\r\n")
        return true
    }
}
