// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
package import IOCore
import ProxyConfiguration
import ServerTrust
import StrictJSON

/// Writes the response for a problem: status, `Proxy-Status` (RFC 9209) and a problem document (RFC 9457).
package enum ErrorResponse {
    /// Writes the whole response as text of HTTP/1.1.
    ///
    /// - Parameters:
    ///   - isHead: the response to HEAD has the same fields and no body.
    ///   - isPage: whether the client is a browser that shows a page instead.
    ///   - keepAlive: whether the connection stays open.
    ///   - writeFields: writes further fields of the head.
    package static func write(
        _ problem: Problem,
        to output: inout ByteBuffer,
        isHead: Bool = false,
        isPage: Bool = false,
        keepAlive: Bool,
        date: [UInt8],
        writeFields: (inout ByteBuffer) -> Void = { _ in }
    ) {
        let body = body(of: problem, isPage: isPage)
        writeHead(
            problem,
            contentLength: body.count,
            isPage: isPage,
            keepAlive: keepAlive,
            cacheStatus: nil,
            date: date,
            to: &output,
            writeFields: writeFields
        )
        if !isHead { output.append(body.bytes) }
    }

    /// The problem document, or the page.
    static func body(of problem: Problem, isPage: Bool) -> ByteBuffer {
        var body = ByteBuffer()
        if isPage { ErrorPage.write(problem, to: &body) } else { body.append(text: document(of: problem).text) }
        return body
    }

    /// Writes the head. The reason phrase names the cause: after a refused CONNECT programs show nothing else.
    ///
    /// - Parameter cacheStatus: the result of the cache; nil when nothing is cached.
    static func writeHead<Output: HeadOutput & ~Copyable>(
        _ problem: Problem,
        contentLength: Int,
        isPage: Bool,
        keepAlive: Bool,
        cacheStatus: CacheStatus?,
        date: [UInt8],
        to output: inout Output,
        writeFields: (inout Output) -> Void = { _ in }
    ) {
        output.begin(status: problem.status) { phrase in
            phrase.append(ReasonPhrase.text(of: problem.status))
            phrase.append(" (")
            phrase.append(text: problem.code.rawValue)
            phrase.append(": ")
            phrase.append(problem.code.title)
            phrase.append(")")
        }
        output.append("Date", date)
        output.append("Content-Type", isPage ? ErrorPage.contentType : "application/problem+json")
        output.append("Content-Length", decimal: contentLength)
        output.append("Cache-Control", "no-store")
        output.append("Proxy-Status") { value in
            value.append("pinproxy; error=")
            value.append(problem.code.proxyStatusError)
            value.append("; details=\"")
            value.append(text: quotable(problem.details))
            value.append("\"")
        }
        if let allow = problem.allow { output.append("Allow", allow) }
        if let cacheStatus { output.append("Cache-Status") { cacheStatus.serialize(into: &$0) } }
        writeFields(&output)
        // A place may become free at any moment.
        if problem.status == 503 { output.append("Retry-After", "1") }
        // RFC 7617, section 2.1: user and password are UTF-8.
        if problem.challenges.contains(.basic) {
            output.append("Proxy-Authenticate", "Basic realm=\"pinproxy\", charset=\"UTF-8\"")
        }
        if problem.challenges.contains(.basicOfOrigin) {
            output.append("WWW-Authenticate", "Basic realm=\"pinproxy\", charset=\"UTF-8\"")
        }
        if problem.challenges.contains(.bearer) { output.append("Proxy-Authenticate", "Bearer realm=\"pinproxy\"") }
        if !keepAlive { output.append(hop: "Connection: close") }
        output.end()
    }

    private static func document(of problem: Problem) -> JSONLine {
        var line = JSONLine()
        line.add("type", "urn:pinproxy:error:\(problem.code.rawValue)")
        line.add("title", "\(problem.code.title)")
        line.add("status", problem.status)
        line.add("error", problem.code.rawValue)
        line.add("detail", problem.details)
        if let evaluation = problem.evaluation { add(evaluation, to: &line) }
        return line
    }

    /// Adds the keys that the server presented and the pins of the pin file: an operator needs both to decide about a
    /// mismatch.
    private static func add(_ evaluation: TrustEvaluation, to line: inout JSONLine) {
        line.add("host", evaluation.host.description)
        let offers = evaluation.offeredPins.map { offer in
            var line = JSONLine()
            line.add("pin", offer.pin.description)
            line.add("subject", offer.subject)
            return line.object
        }
        line.add("offeredPins", array: offers)
        line.add("expectedPins", strings: evaluation.expectedPins.map(\.description))
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
