// SPDX-License-Identifier: Apache-2.0
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

    private init(_ interceptor: Any, _ manager: AnyObject) {
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

    /// Carries out work of an interceptor that goes on when its call has ended.
    static func carryOut<Value>(
        _ interceptor: Any,
        _ manager: AnyObject,
        _ work: () async throws -> Value
    ) async rethrows -> Value {
        try await InterceptorAtWork(interceptor, manager).during(work)
    }

    /// Carries out a call of an interceptor.
    ///
    /// - Returns: nil if the interceptor is at work already: nothing was called.
    static func call<Value>(
        _ interceptor: Any,
        _ manager: AnyObject,
        _ work: () async throws -> Value
    ) async rethrows -> Value? {
        let mark = InterceptorAtWork(interceptor, manager)
        let isAtWork = all.contains { known in
            known.identity == mark.identity && known.manager == mark.manager && !known.isOver.load(ordering: .relaxed)
        }
        return isAtWork ? nil : try await mark.during(work)
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

/// The identity of an interceptor made of closures.
final class ClosureIdentity: Sendable {}
