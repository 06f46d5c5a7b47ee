// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import StrictJSON

/// A connection of the admin listener: HTTP/1.1, one request after the other. Requests are few and responses small.
final class AdminConnection: EventHandler {
    private unowned let server: AdminServer
    /// Identifies the connection when a response is ready on another thread.
    let number: Int
    private var socket: StreamSocket
    private let isUnix: Bool
    private var parser = RequestParser(limits: HeadLimits(headBytes: 16 << 10, strictHost: true))
    private var head = RequestHead()
    private var input = ByteBuffer()
    private var output = ByteBuffer()
    private var timer: LoopTimer!
    private var phase = Phase.reading
    private var closesNext = false
    /// The events that a reader of `/tasks/stream` gets.
    private var stream: TaskStream?
    /// The token with which that reader was let in, where other machines need one.
    private var streamToken: AdminToken?
    /// When something was written to that reader last.
    private var streamedAt: UInt64 = 0

    private enum Phase {
        case reading
        /// The response is being made on another thread; the next request is read after that.
        case waiting
        /// The client reads its response too slowly; the next request is read after that.
        case writing
        /// Events are written as they come, until the reader goes away.
        case streaming
        /// Everything has been written. Input is dropped, because a reset would make the client lose the response.
        case lingering
        case closed
    }

    private static let readSize = 16 << 10
    private static let requestTime = TimeSpan.seconds(10)
    private static let idleTime = TimeSpan.seconds(60)
    private static let lingerTime = TimeSpan.seconds(2)

    init(_ descriptor: Int32, from address: SocketAddress, number: Int, server: AdminServer) {
        self.server = server
        self.number = number
        isUnix = address.family == .unix
        socket = StreamSocket(adopting: descriptor)
        super.init()
        timer = LoopTimer { [unowned self] in timeHasPassed() }
    }

    func open() {
        if !isUnix { socket.setNoDelay() }
        do {
            try server.loop.register(socket.descriptor, .readable, self)
        } catch {
            close()
            return
        }
        server.loop.arm(timer, after: Self.requestTime)
    }

    var isStreaming: Bool { phase == .streaming }

    /// The bytes of the response that the client has not taken yet.
    var waitingBytes: Int { output.count }

    private func timeHasPassed() {
        if phase == .streaming { writeEvents() } else { close() }
    }

    func close() {
        guard phase != .closed else { return }
        phase = .closed
        server.loop.remove(timer)
        server.loop.unregister(socket.descriptor)
        server.forget(self)
    }

    override func ready(_ readiness: Readiness) {
        if readiness.contains(.failed) || readiness.contains(.hungUp) {
            close()
            return
        }
        switch phase {
        case .reading: read()
        case .waiting: break
        case .writing: flush()
        case .streaming:
            dropInput()
            if phase == .streaming, !output.isEmpty { flushEvents() }
        case .lingering: dropInput()
        case .closed: break
        }
    }

    private func read() {
        switch socket.read(into: &input, upTo: Self.readSize) {
        case .bytes: readRequests()
        case .wouldBlock: break
        case .end, .failed: close()
        }
    }

    private func dropInput() {
        input.removeAll()
        switch socket.read(into: &input, upTo: Self.readSize) {
        case .bytes, .wouldBlock: break
        case .end, .failed: close()
        }
    }

    private func readRequests() {
        while phase == .reading, !input.isEmpty {
            var waiting = ByteBuffer()
            swap(&waiting, &input)
            let wasInside = parser.isInsideHead
            let (consumed, outcome) = parser.parse(waiting.bytes, into: &head)
            waiting.consume(consumed)
            swap(&waiting, &input)
            switch outcome {
            case .needMore:
                if !wasInside { server.loop.arm(timer, after: Self.requestTime) }
            case .complete:
                closesNext = !head.keepAlive || head.framing.hasBody
                let isOwnName = server.names.contains(head, localAddress: socket.localAddress)
                respond(AdminRequest(head, isOwnName: isOwnName, access: server.access(head.fields)))
            case .failed(let fault):
                closesNext = true
                respond(AdminRequest(fault))
            }
        }
    }

    // MARK: Responses

    private func respond(_ request: AdminRequest) {
        let source = server.source
        if request.isLarge, !server.hasRoom { return refuse(Self.noRoom) }
        switch request {
        case .page:
            let page = AdminPage.document
            write(page.span, contentType: "text/html; charset=utf-8", isPage: true)
        case .live:
            let isAlive = source.server.isAlive
            if isAlive { write("live\n") } else { write("stuck: a worker does not respond\n", status: 503) }
        case .ready:
            if source.isReady { write("ready\n") } else { write("draining\n", status: 503) }
        case .metrics:
            write(source.metrics.text, contentType: ExpositionText.contentType)
        case .tasks(let limit):
            let tasks = TaskDocuments.tasks(source.wantedTasks(), limit: limit)
            write(tasks.bytes, contentType: Self.json)
        case .archive(let limit):
            let archive = TaskDocuments.archive(
                source.wantedTasks(),
                limit: limit,
                version: source.build.version
            )
            write(archive.bytes, contentType: Self.json, isFile: true)
        case .taskStream(let first):
            return beginStream(from: first)
        case .status: write(source.figures, contentType: Self.json)
        case .policy(let since): write(source.policy(since: since), contentType: Self.json)
        case .configuration: write(source.configuration, contentType: Self.json)
        case .workers: write(source.turnFigures.document, contentType: Self.json)
        case .reloads: write(source.reloads, contentType: Self.json)
        case .reload(let dropsPins): return reload(dropsPins: dropsPins)
        case .drain: return drain()
        case .cache(let request):
            guard performOnCache(request) else { return refuse(Self.noCache) }
            return
        case .refused(let problem):
            return refuse(problem)
        }
        flush()
    }

    private static var json: StaticString { "application/json" }

    private static let noRoom = Problem(
        .limitReached,
        "Too much of earlier responses has not been read yet. Read them, and ask again."
    )

    private static let noCache = Problem(
        .requestInvalid,
        status: 404,
        "This proxy has no cache. Add \"cache\": {} to its configuration."
    )

    /// - Returns: false without a cache.
    private func performOnCache(_ request: CacheAdministration.Request) -> Bool {
        let (server, number) = (server, number)
        let loop = server.loop
        let isAccepted = server.source.perform(request, deliver: { loop.submit($0) }) { document in
            server.connection(number)?.respond(document)
        }
        guard isAccepted else { return false }
        wait()
        return true
    }

    /// Waits for the response of another thread.
    private func wait() {
        phase = .waiting
        server.loop.modify(socket.descriptor, [])
        server.loop.arm(timer, after: Self.idleTime)
    }

    /// The response from the other thread is ready.
    private func respond(_ document: String, status: Int = 200) {
        guard phase == .waiting else { return }
        write(document, status: status, contentType: Self.json)
        flush()
    }

    // MARK: Reload and drain

    private func reload(dropsPins: Bool) {
        let (server, number) = (server, number)
        let completion: @Sendable (ReloadRecord) -> Void = { record in
            server.loop.submit {
                // RFC 9110, section 15.5.21: the files are understood, and cannot be used.
                server.connection(number)?.respond(record.json.text, status: record.isApplied ? 200 : 422)
            }
        }
        guard submit(.reload(dropsPins: dropsPins, completion: completion)) else { return }
        wait()
    }

    private func drain() {
        guard submit(.drain) else { return }
        write("{\"draining\":true}\n", status: 202, contentType: Self.json)
        flush()
    }

    /// - Returns: false after a refusal.
    private func submit(_ request: OperatorRequests.Request) -> Bool {
        guard let requests = server.source.operatorRequests, server.source.isReady else {
            refuse(Problem(.requestInvalid, status: 503, "The proxy is about to end, and takes no further requests."))
            return false
        }
        guard requests.submit(request) else {
            refuse(Problem(.limitReached, "Too many reloads wait. Try again when one of them has ended."))
            return false
        }
        return true
    }

    // MARK: Events

    private func beginStream(from first: Int?) {
        closesNext = true
        guard server.admitsStream else {
            refuse(Problem(.limitReached, "Too many readers of /tasks/stream. Close one of them."))
            return
        }
        let recent = server.source.wantedTasks()
        writeHead(contentType: "text/event-stream", length: nil)
        guard head.method != .head else { return flush() }
        output.append(TaskStream.beginning)
        stream = TaskStream(from: first, of: recent.next)
        streamToken = server.readingToken
        phase = .streaming
        streamedAt = server.loop.now
        appendEvents()
    }

    /// Writes the events that have come, when the reader has taken the earlier ones.
    private func writeEvents() {
        // A token that was taken back opens nothing any longer, and keeps nothing open.
        guard streamToken == server.readingToken else { return close() }
        if output.isEmpty { return appendEvents() }
        // The reader takes nothing.
        if server.loop.now &- streamedAt > Self.idleTime.nanoseconds { return close() }
        server.loop.arm(timer, after: TaskStream.interval)
    }

    private func appendEvents() {
        let hasEvents = stream?.write(server.source.server.recentTasks, to: &output) ?? false
        if !hasEvents, server.loop.now &- streamedAt > TaskStream.heartbeat.nanoseconds { output.append(":\n\n") }
        if !output.isEmpty { streamedAt = server.loop.now }
        server.loop.arm(timer, after: TaskStream.interval)
        flushEvents()
    }

    private func flushEvents() {
        while !output.isEmpty {
            switch socket.write(from: &output) {
            case .bytes, .end: continue
            case .wouldBlock: return server.loop.modify(socket.descriptor, [.readable, .writable])
            case .failed: return close()
            }
        }
        output.release()
        server.loop.modify(socket.descriptor, .readable)
    }

    // MARK: Writing

    private func refuse(_ problem: Problem) {
        ErrorResponse.write(
            problem,
            to: &output,
            isHead: head.method == .head,
            keepAlive: !closesNext,
            date: server.httpDate
        ) { output in
            // RFC 7617, section 2.1: the password is UTF-8.
            if problem.status == 401 {
                output.append("WWW-Authenticate: Bearer realm=\"pinproxy\"\r\n")
                output.append("WWW-Authenticate: Basic realm=\"pinproxy\", charset=\"UTF-8\"\r\n")
            }
            writeCommonFields(to: &output)
            writeContentSecurityPolicy(isPage: false, to: &output)
        }
        flush()
    }

    private func write(
        _ body: String,
        status: Int = 200,
        contentType: StaticString = "text/plain; charset=utf-8"
    ) {
        write(Array(body.utf8).span, status: status, contentType: contentType)
    }

    /// - Parameters:
    ///   - isPage: whether its own script and style may run.
    ///   - isFile: whether a browser keeps it as a file instead of showing it.
    private func write(
        _ body: borrowing Span<UInt8>,
        status: Int = 200,
        contentType: StaticString,
        isPage: Bool = false,
        isFile: Bool = false
    ) {
        writeHead(status: status, contentType: contentType, length: body.count, isPage: isPage, isFile: isFile)
        if head.method != .head { output.append(body) }
    }

    /// - Parameter length: nil for a body that ends with the connection.
    private func writeHead(
        status: Int = 200,
        contentType: StaticString,
        length: Int?,
        isPage: Bool = false,
        isFile: Bool = false
    ) {
        output.appendStatusLine(status)
        output.append("Date: ")
        output.append(server.httpDate)
        output.append("\r\nContent-Type: ")
        output.append(contentType)
        if let length {
            output.append("\r\nContent-Length: ")
            output.append(decimal: length)
        }
        output.append("\r\nCache-Control: no-store\r\n")
        if isFile { output.append("Content-Disposition: attachment; filename=\"pinproxy.har\"\r\n") }
        writeCommonFields(to: &output)
        writeContentSecurityPolicy(isPage: isPage, to: &output)
        output.append(closesNext ? "Connection: close\r\n\r\n" : "\r\n")
    }

    /// Writes the field that marks each response of an admin listener, and no other server's (`pinproxy health`
    /// recognises the listener by it), and those that keep other sites away from it in a browser.
    private func writeCommonFields(to output: inout ByteBuffer) {
        output.append("Pinproxy-Admin: ")
        output.append(text: server.source.build.version)
        output.append(
            "\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
        )
        output.append("Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n")
    }

    private func writeContentSecurityPolicy(isPage: Bool, to output: inout ByteBuffer) {
        output.append("Content-Security-Policy: ")
        if isPage {
            output.append(text: AdminPage.contentSecurityPolicy)
        } else {
            output.append("default-src 'none'; frame-ancestors 'none'")
        }
        output.append("\r\n")
    }

    private func flush() {
        while !output.isEmpty {
            switch socket.write(from: &output) {
            case .bytes, .end: continue
            case .wouldBlock:
                phase = .writing
                server.loop.modify(socket.descriptor, .writable)
                server.loop.arm(timer, after: Self.idleTime)
                return
            case .failed:
                close()
                return
            }
        }
        let hasWaited = phase == .writing || phase == .waiting
        server.loop.modify(socket.descriptor, .readable)
        if closesNext {
            phase = .lingering
            socket.shutdownWrite()
            server.loop.arm(timer, after: Self.lingerTime)
            return
        }
        phase = .reading
        output.release()
        server.loop.arm(timer, after: Self.idleTime)
        if hasWaited { readRequests() }
    }
}
