// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import StrictJSON

/// A response of the proxy's own: an error, the methods that it forwards, or the location of a saved body.
struct OwnResponse: ~Copyable {
    private enum Content {
        case error(Problem, isPage: Bool, CacheStatus?)
        case options
        case download(DownloadedFile)
    }

    let status: Int
    /// Whether the connection stays open.
    let keepAlive: Bool
    private let content: Content
    private let date: [UInt8]
    /// Gives the response the id of its request.
    var identity: RequestIdentity?
    /// Empty in a response to HEAD.
    let body: ByteBuffer
    private let contentLength: Int

    /// The response for a problem.
    ///
    /// - Parameters:
    ///   - head: of the request.
    ///   - cacheStatus: the result of the cache; nil when nothing is cached.
    init(
        _ problem: Problem,
        to head: borrowing RequestHead,
        keepAlive: Bool,
        cacheStatus: CacheStatus?,
        date: [UInt8]
    ) {
        let isPage = problem.code != .requestInvalid && ErrorPage.isWanted(by: head.fields)
        status = problem.status
        self.keepAlive = keepAlive
        content = .error(problem, isPage: isPage, cacheStatus)
        self.date = date
        var body = ErrorResponse.body(of: problem, isPage: isPage)
        contentLength = body.count
        if head.method == .head { body.removeAll() }
        self.body = body
    }

    /// The response to OPTIONS: the methods that this proxy forwards.
    static func options(keepAlive: Bool, date: [UInt8]) -> OwnResponse {
        OwnResponse(.options, status: 200, ByteBuffer(), keepAlive, date)
    }

    /// The response that replaces one whose body was saved to a file.
    static func download(_ outcome: DownloadedFile, keepAlive: Bool, date: [UInt8]) -> OwnResponse {
        var body = ByteBuffer()
        var line = JSONLine()
        line.add("path", outcome.path)
        line.add("bytes", outcome.count)
        line.add("sha256", outcome.digest)
        body.append(text: line.text)
        return OwnResponse(.download(outcome), status: 201, body, keepAlive, date)
    }

    private init(
        _ content: Content,
        status: Int,
        _ body: consuming ByteBuffer,
        _ keepAlive: Bool,
        _ date: [UInt8]
    ) {
        self.content = content
        self.status = status
        contentLength = body.count
        self.body = body
        self.keepAlive = keepAlive
        self.date = date
    }

    func writeHead<Output: HeadOutput & ~Copyable>(to output: inout Output) {
        switch content {
        case .error(let problem, let isPage, let cacheStatus):
            return ErrorResponse.writeHead(
                problem,
                contentLength: contentLength,
                isPage: isPage,
                keepAlive: keepAlive,
                cacheStatus: cacheStatus,
                date: date,
                to: &output,
                writeFields: { [identity] in identity?.write(to: &$0) }
            )
        case .options:
            output.begin(status: status)
            output.append("Date", date)
            output.append("Allow", "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH")
            output.append("Content-Length", decimal: 0)
        case .download(let outcome):
            output.begin(status: status)
            output.append("Date", date)
            output.append("Location") { $0.append(text: outcome.url) }
            output.append("Content-Type", "application/json")
            output.append("Content-Length", decimal: contentLength)
            output.append("Cache-Control", "no-store")
        }
        identity?.write(to: &output)
        if !keepAlive { output.append(hop: "Connection: close") }
        output.end()
    }
}
