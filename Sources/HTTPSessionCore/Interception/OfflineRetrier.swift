// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// Retries requests that failed without a network, when the network is there again (`NetworkReachabilityManager`).
///
/// It waits only after `dnsFailed` and `connectFailed`, of which the server has received nothing, so that any method may be
/// repeated; and only if the kernel has no route at that time. When there is a route, the failure has another cause, and the next
/// retrier decides.
///
/// ```swift
/// let manager = try HTTPSessionManager(interceptor: Interceptor(interceptors: [OfflineRetrier(), RetryPolicy()]))
/// ```
///
/// `Configuration.waitsForConnectivity` does the same inside one attempt, without a retry.
public struct OfflineRetrier: RequestInterceptor {
    /// The longest wait for the network; then the next retrier decides.
    public var maximumWait: Duration
    /// The largest number of retries.
    public var retryLimit: Int
    var watch: ConnectivityWatch = ConnectivityWait.routes

    /// A retrier that by default waits for a minute, for each of three retries.
    public init(maximumWait: Duration = .seconds(60), retryLimit: Int = 3) {
        self.maximumWait = maximumWait
        self.retryLimit = retryLimit
    }

    /// `retry` when the network has come back, else `doNotRetry`.
    public func retry(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult {
        guard case .session(let error) = failure, error.code == .dnsFailed || error.code == .connectFailed,
            request.retryCount < retryLimit, let url = try? RequestURL(request.request.url)
        else { return .doNotRetry }
        // The network says nothing about an origin in memory.
        guard request.manager.configuration.stub == nil else { return .doNotRetry }
        // A name without an address says nothing about the network; neither does a host behind a proxy.
        let hasProxy = request.manager.configuration.proxy != nil
        let host = error.code == .dnsFailed || hasProxy ? nil : url.origin.host
        return await isBackAgain(host) ? .retry : .doNotRetry
    }

    private func isBackAgain(_ host: Host?) async -> Bool {
        let change = NetworkChange()
        guard let watching = try? watch(host, { change.note(isReachable: $0) }) else { return false }
        defer { withExtendedLifetime(watching) {} }
        let limit = Task { [maximumWait] in
            try? await Task.sleep(for: maximumWait)
            change.end()
        }
        defer { limit.cancel() }
        return await withTaskCancellationHandler {
            (try? await change.outcome.value()) ?? false
        } onCancel: {
            change.end()
        }
    }
}

/// Whether the network comes back, or was there all the time.
///
/// `@unchecked Sendable`: `wasAway` is behind `lock`.
private final class NetworkChange: @unchecked Sendable {
    let outcome = FirstOutcome<Bool>()
    private let lock = PosixLock()
    private var wasAway = false

    func note(isReachable: Bool) {
        let isBack: Bool? = lock.withLock {
            guard isReachable else {
                wasAway = true
                return nil
            }
            return wasAway
        }
        if let isBack { outcome.resolve(.success(isBack)) }
    }

    /// Ends the wait, in vain.
    func end() { outcome.resolve(.success(false)) }
}
