// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionCore
import IOCore
import SessionCore

/// A stub origin's work on one request. It lives as long as the exchange needs it.
///
/// `@unchecked Sendable`: everything but `exchange`, `action` and `origin`, which do not change, is for the loop's thread.
final class StubService: @unchecked Sendable {
    private let exchange: StubExchange
    private let action: StubRoute.Action
    private let origin: StubOrigin
    private var received: [UInt8] = []
    private let timer = LoopTimer()
    private var work: Task<Void, Never>?
    private var response = StubResponse()
    private var trailers = HeaderFields()
    private var reader: (any BodyReader)?
    private var sent = 0

    init(_ exchange: StubExchange, _ action: StubRoute.Action, of origin: StubOrigin) {
        self.exchange = exchange
        self.action = action
        self.origin = origin
    }

    func start() {
        // These closures hold the service until the exchange drops them.
        exchange.didReceiveBody = { [self] bytes in received.append(bytes) }
        exchange.didReceiveEnd = { [self] in didReceiveRequest() }
        exchange.wantsMore = { [self] in readMore() }
        exchange.didEnd = { [self] in stop() }
        // As over a connection, nothing happens before the call that started the task has returned.
        switch action {
        case .failure(let failure, let delay) where failure.isBeforeRequest:
            after(delay) { [self] in exchange.fail(failure.error(of: exchange.request)) }
        case .refusal(let error):
            after(.zero) { [exchange] in exchange.fail(error) }
        case .handler, .response, .webSocket, .failure, .recording:
            after(.zero) { [exchange] in exchange.accept() }
        }
    }

    private func stop() {
        exchange.loop.remove(timer)
        work?.cancel()
        work = nil
        reader = nil
    }

    private func after(_ delay: Duration, _ work: @escaping () -> Void) {
        guard delay > .zero else { return exchange.loop.atEndOfTurn(work) }
        timer.whenDue(work)
        let nanoseconds = delay / .nanoseconds(1)
        exchange.loop.arm(timer, after: TimeSpan(nanoseconds: UInt64(min(max(nanoseconds, 1), 1e18))))
    }

    // MARK: Request

    private func didReceiveRequest() {
        let request = StubRequest(
            method: exchange.request.method,
            url: exchange.url,
            headers: HTTPHeaders(exchange.request.fields),
            body: received
        )
        received = []
        origin.record(request)
        carryOut(action, request)
    }

    private func carryOut(_ action: StubRoute.Action, _ request: StubRequest) {
        switch action {
        case .recording: carryOut(origin.recordedReply(to: request), request)
        case .failure(let failure, let delay):
            after(delay) { [self] in exchange.fail(failure.error(of: exchange.request)) }
        case .response(let response): send(response)
        case .webSocket(let service):
            guard !service.open(request, on: exchange) else { return }
            send(.status(426).adding("Sec-WebSocket-Version", "13"))
        case .refusal(let error): exchange.fail(error)
        case .handler(let handler):
            exchange.setWorking(true)
            work = Task { [exchange] in
                let result: Result<StubResponse, SessionError>
                do {
                    result = .success(try await handler(request))
                } catch let error as SessionError {
                    result = .failure(error)
                } catch {
                    result = .failure(
                        SessionError(.internal, "The handler of a stub's route threw an error: \(error)")
                    )
                }
                exchange.onLoop { _ in self.didMake(result) }
            }
        }
    }

    private func didMake(_ result: Result<StubResponse, SessionError>) {
        work = nil
        exchange.setWorking(false)
        switch result {
        case .success(let response): send(response)
        case .failure(let error): exchange.fail(error)
        }
    }

    // MARK: Response

    private func send(_ response: StubResponse) {
        self.response = response
        after(response.delay) { [self] in sendHead() }
    }

    private func sendHead() {
        let (fields, trailers): (HeaderFields, HeaderFields)
        do throws(SessionError) {
            (fields, trailers) = (try response.headers.checked(), try response.trailers.checked())
        } catch {
            return exchange.fail(SessionError(.responseInvalid, "The stub's response cannot be sent: \(error.details)"))
        }
        self.trailers = trailers
        guard (200...599).contains(response.status) else {
            return exchange.fail(
                SessionError(.responseInvalid, "A stub's response has the status \(response.status): write 200 to 599.")
            )
        }
        let own = ["Transfer-Encoding", "Connection"].first { response.headers.contains(name: $0) }
        if let own {
            return exchange.fail(SessionError(.responseInvalid, "\(own) is a stub's own field: leave it out."))
        }
        var length: Int?
        switch response.body {
        case .none: length = 0
        case .bytes(let bytes): length = bytes.count
        case .source(let source):
            length = source.length
            do throws(SessionError) {
                reader = try source.open()
            } catch {
                return exchange.fail(error)
            }
        }
        // A body that is cut off behind its last byte must not be complete there.
        if let cut = response.cut, let known = length, cut.count >= known { length = nil }
        exchange.respond(status: response.status, fields: fields, bodyLength: length)
        guard reader == nil else { return readMore() }
        if case .bytes(let bytes) = response.body { pass(bytes) }
        exchange.finish(trailers: trailers)
    }

    /// Sends bytes of the body, up to the place where it is to be cut.
    private func pass(_ bytes: [UInt8]) {
        guard let (count, error) = response.cut, sent + bytes.count >= count else {
            sent += bytes.count
            return exchange.send(bytes.span)
        }
        exchange.send(bytes.span.extracting(0..<(count - sent)))
        sent = count
        reader = nil
        exchange.fail(error)
    }

    /// The consumer has taken all that there was.
    private func readMore() {
        guard let reader, work == nil else { return }
        work = Task { [exchange] in
            let result: Result<[UInt8], SessionError>
            do {
                result = .success(try await reader.read(atMost: 64 << 10))
            } catch let error as SessionError {
                result = .failure(error)
            } catch {
                result = .failure(SessionError(.responseTruncated, "The source of a stub's body failed: \(error)"))
            }
            exchange.onLoop { _ in self.didRead(result) }
        }
    }

    private func didRead(_ result: Result<[UInt8], SessionError>) {
        work = nil
        guard reader != nil else { return }
        switch result {
        case .failure(let error): exchange.fail(error)
        case .success(let bytes) where bytes.isEmpty:
            reader = nil
            exchange.finish(trailers: trailers)
        case .success(let bytes): pass(bytes)
        }
    }
}
