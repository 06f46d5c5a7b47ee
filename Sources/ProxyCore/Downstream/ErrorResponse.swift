import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust

/// Writes the response for a problem: status, `Proxy-Status` (RFC 9209) and a problem document (RFC 9457).
enum ErrorResponse {
    /// - Parameters:
    ///   - isHead: the response to HEAD has the same fields and no body.
    ///   - isPage: whether the client is a browser that shows a page instead.
    ///   - keepAlive: whether the connection stays open.
    ///   - cacheStatus: the result of the cache; nil when nothing is cached.
    ///   - writeFields: writes further fields of the head.
    static func write(
        _ problem: Problem,
        to output: inout ByteBuffer,
        isHead: Bool = false,
        isPage: Bool = false,
        keepAlive: Bool,
        cacheStatus: CacheStatus? = nil,
        date: borrowing Span<UInt8>,
        writeFields: (inout ByteBuffer) -> Void = { _ in }
    ) {
        var body = ByteBuffer()
        if isPage { ErrorPage.write(problem, to: &body) } else { writeDocument(problem, to: &body) }
        writeStatusLine(problem, to: &output)
        output.append("Date: ")
        output.append(date)
        output.append("\r\nContent-Type: ")
        output.append(isPage ? ErrorPage.contentType : "application/problem+json")
        output.append("\r\nContent-Length: ")
        output.append(decimal: body.count)
        output.append("\r\nCache-Control: no-store\r\nProxy-Status: pinproxy; error=")
        output.append(problem.code.proxyStatusError)
        output.append("; details=\"")
        output.append(text: quotable(problem.details))
        output.append("\"\r\n")
        if let allow = problem.allow {
            output.append("Allow: ")
            output.append(allow)
            output.append("\r\n")
        }
        cacheStatus?.writeField(to: &output)
        writeFields(&output)
        // A place may become free at any moment.
        if problem.status == 503 { output.append("Retry-After: 1\r\n") }
        // RFC 7617, section 2.1: user and password are UTF-8.
        if problem.challenges.contains(.basic) {
            output.append("Proxy-Authenticate: Basic realm=\"pinproxy\", charset=\"UTF-8\"\r\n")
        }
        if problem.challenges.contains(.bearer) { output.append("Proxy-Authenticate: Bearer realm=\"pinproxy\"\r\n") }
        output.append(keepAlive ? "\r\n" : "Connection: close\r\n\r\n")
        if !isHead { output.append(body.bytes) }
    }

    /// The reason phrase names the cause: after a refused CONNECT programs show nothing else.
    private static func writeStatusLine(_ problem: Problem, to output: inout ByteBuffer) {
        output.append("HTTP/1.1 ")
        output.append(decimal: problem.status)
        output.append(" ")
        output.append(ReasonPhrase.text(of: problem.status))
        output.append(" (")
        output.append(text: problem.code.rawValue)
        output.append(": ")
        output.append(problem.code.title)
        output.append(")\r\n")
    }

    private static func writeDocument(_ problem: Problem, to body: inout ByteBuffer) {
        body.append("{\"type\":\"urn:pinproxy:error:")
        body.append(text: problem.code.rawValue)
        body.append("\",\"title\":\"")
        body.append(problem.code.title)
        body.append("\",\"status\":")
        body.append(decimal: problem.status)
        body.append(",\"error\":\"")
        body.append(text: problem.code.rawValue)
        body.append("\",\"detail\":")
        body.append(jsonString: problem.details)
        if let evaluation = problem.evaluation { writePins(evaluation, to: &body) }
        body.append("}\n")
    }

    /// Writes the keys that the server presented and the pins of the pin file: an operator needs both to decide about a
    /// mismatch.
    private static func writePins(_ evaluation: TrustEvaluation, to body: inout ByteBuffer) {
        body.append(",\"host\":")
        body.append(jsonString: evaluation.host.description)
        body.append(",\"offeredPins\":[")
        var first = true
        for offer in evaluation.offeredPins {
            if !first { body.append(",") }
            first = false
            body.append("{\"pin\":")
            body.append(jsonString: offer.pin.description)
            body.append(",\"subject\":")
            body.append(jsonString: offer.subject)
            body.append("}")
        }
        body.append("],\"expectedPins\":[")
        first = true
        for pin in evaluation.expectedPins {
            if !first { body.append(",") }
            first = false
            body.append(jsonString: pin.description)
        }
        body.append("]")
    }

    /// A quoted string of RFC 8941 holds printable ASCII only.
    private static func quotable(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars.prefix(400) {
            switch scalar {
            case "\"", "\\": result += "\\\(scalar)"
            case " "..."~": result.unicodeScalars.append(scalar)
            default: result += scalar == "\n" ? " " : "?"
            }
        }
        return result
    }
}
