public import HTTPCore
import IOCore

/// A session for requests and whole answers, on a `URLSessionManager`.
///
/// ```swift
/// let manager = try HTTPSessionManager(serverTrust: SessionTrust(anchors: .system(), policies: policies))
/// let answer = try await manager.data(for: "https://api.example.com/v1/items")
/// await manager.invalidateSession(cancelingTasks: false)
/// ```
///
/// Every member may be called on any thread, and none waits.
public final class HTTPSessionManager: Sendable {
    public typealias Configuration = URLSessionManager.Configuration

    /// What makes the tasks: its hooks, its lists of tasks.
    public let session: URLSessionManager

    /// - Parameter loop: the thread to share with other sessions; nil for one of its own.
    /// - Throws: `internal` when the system has no more threads or descriptors.
    public init(
        configuration: Configuration = Configuration(),
        serverTrust: SessionTrust,
        loop: SessionLoop? = nil
    ) throws(SessionError) {
        session = try URLSessionManager(configuration: configuration, serverTrust: serverTrust, loop: loop)
    }

    public var configuration: Configuration { session.configuration }
    public var serverTrust: SessionTrust { session.serverTrust }

    /// Makes a request and collects the answer. Any status is an answer, 404 too; redirects are followed.
    ///
    /// When the Swift task that waits is cancelled, the transfer is, and `cancelled` is thrown.
    ///
    /// - Parameters:
    ///   - url: `http` or `https`, ASCII, percent-encoded as it shall go on the wire (RFC 3986). User information is
    ///     refused; a fragment is not sent.
    ///   - fields: beside `Host` and the framing fields, which are made from `url` and `body`.
    ///   - body: nil for none.
    public func data(
        for url: String,
        method: HTTPMethod = .get,
        fields: HTTPFields = HTTPFields(),
        body: [UInt8]? = nil
    ) async throws(SessionError) -> DataResponse {
        try await data(
            for: HTTPRequest(url: url, method: method, fields: fields, body: body.map { .bytes($0) } ?? .none)
        )
    }

    /// Makes a request and collects the answer, as `data(for:method:fields:body:)` does. A body's source is read while
    /// it is sent, at most 128 KB ahead of what has gone.
    ///
    /// - Throws: also what the body's source throws, as `requestInvalid`.
    public func data(for request: HTTPRequest) async throws(SessionError) -> DataResponse {
        try await session.dataTask(with: request).value()
    }

    /// `URLSessionManager.perform`.
    @discardableResult
    public func perform(_ work: @escaping @Sendable (LoopSession) -> Void) -> Bool { session.perform(work) }

    /// `URLSessionManager.endpoint`.
    public func endpoint(for url: String) throws(SessionError) -> Endpoint { try session.endpoint(for: url) }

    /// `URLSessionManager.invalidateSession`.
    public func invalidateSession(cancelingTasks: Bool) async {
        await session.invalidateSession(cancelingTasks: cancelingTasks)
    }
}

/// A whole answer.
public struct DataResponse: Sendable {
    /// Status, version and fields.
    public let response: ResponseHead
    /// The body, without any transfer coding.
    public let data: [UInt8]
    /// The trailer section (RFC 9110, section 6.5); empty for most answers.
    public let trailers: HTTPFields
    public let metrics: TaskMetrics
}
