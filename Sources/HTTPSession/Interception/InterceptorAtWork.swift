import Synchronization

/// An interceptor that is adapting, refreshing or deciding in this Swift task. Requests that it makes meanwhile pass it by: it
/// would be asked about them in turn, without end, or wait for itself.
///
/// Child tasks and `Task { … }` inherit the mark, a detached task and a dispatch queue do not. It is void when the call that it
/// stands for has ended.
final class InterceptorAtWork: Sendable {
    @TaskLocal private static var all: [InterceptorAtWork] = []

    private let identity: ObjectIdentifier
    /// Of an interceptor that is no object: one of its type at another manager is another interceptor.
    private let manager: ObjectIdentifier?
    private let isOver = Atomic(false)

    private init(_ interceptor: Any, _ manager: HTTPSessionManager) {
        if let closure = interceptor as? any ClosureInterceptor {
            identity = ObjectIdentifier(closure.identity)
            self.manager = nil
        } else if type(of: interceptor) is AnyClass {
            identity = ObjectIdentifier(interceptor as AnyObject)
            self.manager = nil
        } else {
            identity = ObjectIdentifier(type(of: interceptor))
            self.manager = ObjectIdentifier(manager)
        }
    }

    /// Asks an adapter, unless the request is one of its own.
    static func adapt(
        _ request: HTTPSessionRequest,
        for subject: Request,
        by adapter: any RequestAdapter
    ) async throws -> HTTPSessionRequest {
        guard let mark = mark(for: adapter, subject.manager) else { return request }
        return try await mark.during { try await adapter.adapt(request, for: subject) }
    }

    /// Asks a retrier, unless the request is one of its own.
    static func retry(
        _ request: Request,
        dueTo failure: RequestFailure,
        by retrier: any RequestRetrier
    ) async -> RetryResult {
        guard let mark = mark(for: retrier, request.manager) else { return .doNotRetry }
        return await mark.during { await retrier.retry(request, dueTo: failure) }
    }

    /// Carries out work of an interceptor that goes on when its call has ended.
    static func carryOut<Value>(
        _ interceptor: any RequestInterceptor,
        _ manager: HTTPSessionManager,
        _ work: () async throws -> Value
    ) async rethrows -> Value {
        try await InterceptorAtWork(interceptor, manager).during(work)
    }

    /// nil if it is at work already.
    private static func mark(for interceptor: Any, _ manager: HTTPSessionManager) -> InterceptorAtWork? {
        let mark = InterceptorAtWork(interceptor, manager)
        // A row of interceptors asks each of them in this way.
        if interceptor is Interceptor { return mark }
        let isAtWork = all.contains { known in
            known.identity == mark.identity && known.manager == mark.manager && !known.isOver.load(ordering: .relaxed)
        }
        return isAtWork ? nil : mark
    }

    private func during<Value>(_ work: () async throws -> Value) async rethrows -> Value {
        defer { isOver.store(true, ordering: .relaxed) }
        return try await Self.$all.withValue(Self.all + [self]) { try await work() }
    }
}

/// An interceptor of closures: it is the same one wherever its value is copied to.
protocol ClosureInterceptor {
    var identity: ClosureIdentity { get }
}

/// What tells one interceptor of closures from another.
final class ClosureIdentity: Sendable {}
