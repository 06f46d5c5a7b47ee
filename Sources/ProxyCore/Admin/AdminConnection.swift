import HTTPCore
import IOCore

/// A connection of the admin listener: HTTP/1.1, one request after the other. Requests are few and responses small.
final class AdminConnection: EventHandler {
    private unowned let server: AdminServer
    /// Identifies the connection when a response is ready on another thread.
    let number: Int
    private var socket: StreamSocket
    private let isUnix: Bool
    /// Whether the client is on this machine.
    private let isLocal: Bool
    private var parser = RequestParser(limits: HeadLimits(headBytes: 16 << 10))
    private var head = RequestHead()
    private var input = ByteBuffer()
    private var output = ByteBuffer()
    private var timer: LoopTimer!
    private var phase = Phase.reading
    private var closesNext = false

    private enum Phase {
        case reading
        /// The response is being made on another thread; the next request is read after that.
        case waiting
        /// The client reads its response too slowly; the next request is read after that.
        case writing
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
        isLocal = isUnix || AddressAndPort(address)?.address.isLoopback == true
        socket = StreamSocket(adopting: descriptor)
        super.init()
        timer = LoopTimer { [unowned self] in close() }
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
                respond(AdminRequest(head, isOwnName: isOwnName, isLocal: isLocal))
            case .failed(let fault):
                closesNext = true
                respond(AdminRequest(fault))
            }
        }
    }

    // MARK: Responses

    private func respond(_ request: AdminRequest) {
        let source = server.source
        switch request {
        case .live:
            if source.isAlive { write("live\n") } else { write("stuck: a worker does not respond\n", status: 503) }
        case .ready:
            if source.isReady { write("ready\n") } else { write("draining\n", status: 503) }
        case .metrics:
            write(source.metrics.text, contentType: ExpositionText.contentType)
        case .cache(let request):
            guard performOnCache(request) else { return refuse(Self.noCache) }
            return
        case .refused(let problem):
            return refuse(problem)
        }
        flush()
    }

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
        phase = .waiting
        loop.modify(socket.descriptor, [])
        loop.arm(timer, after: Self.idleTime)
        return true
    }

    /// The response from the other thread is ready.
    private func respond(_ document: String) {
        guard phase == .waiting else { return }
        write(document, contentType: "application/json")
        flush()
    }

    private func refuse(_ problem: Problem) {
        ErrorResponse.write(
            problem,
            to: &output,
            isHead: head.method == .head,
            keepAlive: !closesNext,
            date: server.httpDate.span,
            writeFields: writeVersion
        )
        flush()
    }

    private func write(
        _ body: String,
        status: Int = 200,
        contentType: StaticString = "text/plain; charset=utf-8"
    ) {
        output.appendStatusLine(status)
        output.append("Date: ")
        output.append(server.httpDate)
        output.append("\r\nContent-Type: ")
        output.append(contentType)
        output.append("\r\nContent-Length: ")
        output.append(decimal: body.utf8.count)
        output.append("\r\nCache-Control: no-store\r\n")
        writeVersion(to: &output)
        output.append(closesNext ? "Connection: close\r\n\r\n" : "\r\n")
        if head.method != .head { output.append(text: body) }
    }

    /// Writes the field that marks each response of an admin listener, and no other server's: `pinproxy health`
    /// recognises the listener by it.
    private func writeVersion(to output: inout ByteBuffer) {
        output.append("Pinproxy-Admin: ")
        output.append(text: server.source.build.version)
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
