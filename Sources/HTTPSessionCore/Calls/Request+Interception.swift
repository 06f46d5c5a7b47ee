// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// The part of interceptors, for requests of either kind.
extension Request {
    /// Returns the request of the next attempt.
    func adapt() async throws(RequestFailure) -> HTTPSessionRequest {
        guard !isCancelled else { throw named(.taskCancelled) }
        guard let interceptor else { return originalRequest }
        do {
            let start = Clock.monotonic
            let adapted = try await interruptible(within: totalLimit) {
                try await interceptor.adaptOthers(self.originalRequest, for: self)
            }
            didAdapt(to: adapted)
            notifyMonitors { $0.request(self, didAdapt: self.originalRequest, to: adapted) }
            return withRest(of: adapted, after: Clock.monotonic - start)
        } catch {
            if isCancelled { throw named(.taskCancelled) }
            notifyMonitors { $0.request(self, didFailToAdapt: self.originalRequest, with: error) }
            if let expiry = error as? TotalExpiry { throw named(expiry.error("An adapter")) }
            throw .adaptation(error)
        }
    }

    /// Returns when the request is to be sent again.
    ///
    /// - Throws: the failure that the request ends with.
    func waitToRetry(after failure: RequestFailure) async throws(RequestFailure) {
        if isCancelled { throw named(.taskCancelled) }
        guard let interceptor, failure.mayBeRetried else { throw failure }
        let verdict: RetryResult
        do {
            verdict = try await interruptible(within: totalLimit) {
                await interceptor.retryOthers(self, dueTo: failure)
            }
            switch verdict {
            case .doNotRetry: throw failure
            case .doNotRetryWithError(let error): throw RequestFailure.retry(error, original: failure)
            case .retry: break
            case .retryWithDelay(let delay): try await interruptible { try await Task.sleep(for: delay) }
            }
        } catch let error as RequestFailure {
            throw error
        } catch let expiry as TotalExpiry {
            throw named(expiry.error("A retrier"))
        } catch {
            throw named(.taskCancelled)
        }
        willRetry()
        notifyMonitors { $0.requestIsRetrying(self) }
    }

    /// An error of this request, with its name.
    func named(_ error: SessionError) -> RequestFailure {
        let request = request
        return .session(error.named(RequestName.text(request.method, request.url)))
    }

    /// `timeouts.total`, of the request or of the session; nil for none.
    private var totalLimit: TimeSpan? { (originalRequest.timeouts ?? manager.configuration.timeouts).spans.total }

    /// The request of the attempt, with what its adapters have left of `timeouts.total`.
    private func withRest(of adapted: HTTPSessionRequest, after elapsed: UInt64) -> HTTPSessionRequest {
        var timeouts = adapted.timeouts ?? manager.configuration.timeouts
        guard let total = timeouts.spans.total else { return adapted }
        timeouts.spans.total = TimeSpan(nanoseconds: total.nanoseconds > elapsed ? total.nanoseconds - elapsed : 1)
        var rest = adapted
        rest.timeouts = timeouts
        return rest
    }
}
