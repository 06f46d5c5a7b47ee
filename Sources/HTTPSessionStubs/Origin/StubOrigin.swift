// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import HTTPSessionCore
import IOCore
public import SessionCore

/// An origin in memory, for tests of programs that use a session: no sockets, no names, no TLS.
///
/// ```swift
/// let origin = StubOrigin()
/// try origin.route(.get, "/v1/items") { _ in try .json(["one", "two"]) }
/// try origin.route(.post, "/v1/items", times: 1, failure: StubFailure(.connectFailed))
/// try origin.route(.post, "/v1/items", response: .status(201))
///
/// var configuration = HTTPSessionManager.Configuration()
/// configuration.answerRequests(with: origin)
/// let manager = try HTTPSessionManager(baseURL: "https://api.example.com", configuration: configuration)
/// ```
///
/// Everything above the connection is the session's own: redirects, retries, cookies, challenges, the cache, limits of time,
/// streams, progress, content codings, metrics. `init(har:)` replays a recording. A request that no route matches fails with `request_invalid`: nothing is ever
/// sent anywhere. What the cache of such a session has stored, a session with connections does not use.
///
/// `@unchecked Sendable`: `shared` is accessed with `lock` held.
public final class StubOrigin: @unchecked Sendable {
    /// Makes the response to a request, which is there as a whole. A thrown `SessionError` is the error of the request; any other
    /// error is `internal`.
    public typealias Handler = @Sendable (_ request: StubRequest) async throws -> StubResponse

    private let lock = PosixLock()
    /// Behind `lock`.
    private var shared = Shared()

    private struct Shared {
        var routes: [StubRoute] = []
        /// Answers what no route does.
        var recording: (any StubRecording)?
        var requests: [StubRequest] = []
        var unmatched: [(method: HTTPMethod, url: String)] = []

        mutating func replay(_ method: HTTPMethod, _ url: AbsoluteURL, body: [UInt8]?) -> StubRoute.Action {
            switch recording?.reply(to: method, url, body: body) {
            case .success(let action): return action
            case .failure(let error):
                unmatched.append((method, url.text))
                return .refusal(error)
            case nil: return .refusal(SessionError(.requestInvalid, "The recording was removed."))
            }
        }
    }

    /// An origin without routes.
    public init() {}

    // MARK: Routes

    /// Adds a route whose responses a closure makes. The first route that matches, and has not been used up, answers.
    ///
    /// - Parameters:
    ///   - method: nil for every method.
    ///   - pattern: a path (`/v1/items`) on any host, a URL, or `*` for everything. In a path `*` stands for one part, and at the
    ///     end for the rest; a query in the pattern has to be the request's, and without one any query matches.
    ///   - times: how many requests it answers; nil for all.
    ///   - respond: called on a thread of Swift's pool, when the request has been received whole. Of the time limits only
    ///     `total` runs meanwhile: `StubResponse.delay` is the way to a response that comes too late.
    /// - Throws: `requestInvalid` for a text that is not a pattern.
    public func route(
        _ method: HTTPMethod?,
        _ pattern: String,
        times: Int? = nil,
        respond: @escaping Handler
    ) throws(SessionError) {
        add(StubRoute(method: method, pattern: try RoutePattern(pattern), left: times, action: .handler(respond)))
    }

    /// Adds a route with one response.
    ///
    /// - Throws: `requestInvalid` for a text that is not a pattern.
    public func route(
        _ method: HTTPMethod?,
        _ pattern: String,
        times: Int? = nil,
        response: StubResponse
    ) throws(SessionError) {
        add(StubRoute(method: method, pattern: try RoutePattern(pattern), left: times, action: .response(response)))
    }

    /// Adds a route that fails.
    ///
    /// - Parameters:
    ///   - method: nil for every method.
    ///   - pattern: as of the other routes.
    ///   - times: how many requests fail; nil for all.
    ///   - delay: the time before the failure.
    ///   - failure: the error.
    /// - Throws: `requestInvalid` for a text that is not a pattern.
    public func route(
        _ method: HTTPMethod?,
        _ pattern: String,
        times: Int? = nil,
        delay: Duration = .zero,
        failure: StubFailure
    ) throws(SessionError) {
        let pattern = try RoutePattern(pattern)
        add(StubRoute(method: method, pattern: pattern, left: times, action: .failure(failure, delay)))
    }

    /// Removes all routes, and a recording.
    public func removeRoutes() {
        lock.withLock {
            shared.routes = []
            shared.recording = nil
        }
    }

    func use(_ recording: any StubRecording) { lock.withLock { shared.recording = recording } }

    func add(_ route: StubRoute) { lock.withLock { shared.routes.append(route) } }

    // MARK: What it has received

    /// The requests that were received whole, in that order: those of redirects and retries, too. A request that was cancelled
    /// before, or failed with an error of the connection, is not among them.
    public var requests: [StubRequest] { lock.withLock { shared.requests } }

    /// The requests that no route has matched.
    public var unmatchedRequests: [(method: HTTPMethod, url: String)] { lock.withLock { shared.unmatched } }

    /// Forgets `requests` and `unmatchedRequests`.
    public func removeRequests() {
        lock.withLock {
            shared.requests = []
            shared.unmatched = []
        }
    }

    func record(_ request: StubRequest) { lock.withLock { shared.requests.append(request) } }

    // MARK: For the session

    var transport: StubTransport { StubTransport { [self] exchange in serve(exchange) } }

    private func serve(_ exchange: StubExchange) {
        let method = exchange.request.method
        let action = lock.withLock { () -> StubRoute.Action? in
            guard let url = AbsoluteURL(exchange.url) else { return nil }
            if let index = shared.routes.firstIndex(where: { $0.matches(method, url) }) {
                shared.routes[index].use()
                return shared.routes[index].action
            }
            guard let recording = shared.recording else {
                shared.unmatched.append((method, exchange.url))
                return nil
            }
            return recording.matchesBodies ? .recording : shared.replay(method, url, body: nil)
        }
        StubService(exchange, action ?? .refusal(unmatched(exchange)), of: self).start()
    }

    /// The recorded reply to a request that is there as a whole.
    func recordedReply(to request: StubRequest) -> StubRoute.Action {
        lock.withLock {
            guard let url = AbsoluteURL(request.url) else {
                return .refusal(SessionError(.requestInvalid, request.url))
            }
            return shared.replay(request.method, url, body: request.body)
        }
    }

    private func unmatched(_ exchange: StubExchange) -> SessionError {
        let routes = lock.withLock { shared.routes.map(\.description) }
        return SessionError(
            .requestInvalid,
            "No route of the StubOrigin matches \(exchange.request.method) \(exchange.url). "
                + (routes.isEmpty ? "It has no routes." : "Its routes: \(routes.joined(separator: "; ")).")
        )
    }
}

/// What answers the requests that no route of a `StubOrigin` does. The origin has it behind its lock.
protocol StubRecording: Sendable {
    /// Whether a reply depends on the body of the request.
    var matchesBodies: Bool { get }

    /// Takes the next reply to a request.
    ///
    /// - Parameter body: nil when bodies need not match.
    mutating func reply(
        to method: HTTPMethod,
        _ url: AbsoluteURL,
        body: [UInt8]?
    ) -> Result<StubRoute.Action, SessionError>
}

/// One route of a `StubOrigin`.
struct StubRoute: CustomStringConvertible {
    enum Action: Sendable {
        case handler(StubOrigin.Handler)
        case response(StubResponse)
        case webSocket(StubWebSocketService)
        case failure(StubFailure, Duration)
        /// Nothing is received.
        case refusal(SessionError)
        /// The recorded reply to the whole request.
        case recording
    }

    /// nil for every method.
    let method: HTTPMethod?
    let pattern: RoutePattern
    /// How many requests it still answers; nil for all.
    private(set) var left: Int?
    let action: Action

    init(method: HTTPMethod?, pattern: RoutePattern, left: Int?, action: Action) {
        self.method = method
        self.pattern = pattern
        self.left = left
        self.action = action
    }

    func matches(_ method: HTTPMethod, _ url: AbsoluteURL) -> Bool {
        left != 0 && (self.method == nil || self.method == method) && pattern.matches(url)
    }

    mutating func use() { left = left.map { $0 - 1 } }

    var description: String {
        "\(method.map { "\($0) " } ?? "")\(pattern.text)\(left == 0 ? " (used up)" : "")"
    }
}

extension URLSessionManager.Configuration {
    /// Sends all requests of the session to an origin in memory, and none anywhere else. For tests alone: such a session
    /// evaluates no server, since there is none. Without this product a configuration has no way to it.
    public mutating func answerRequests(with origin: StubOrigin) { stub = origin.transport }
}
