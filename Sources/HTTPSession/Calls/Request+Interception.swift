import HTTPCore
import IOCore

/// The part of interceptors, for requests of either kind.
extension Request {
    /// Returns the request of the next attempt.
    func adapt() async throws(RequestFailure) -> HTTPSessionRequest {
        guard !isCancelled else { throw .session(.taskCancelled) }
        guard let interceptor else { return originalRequest }
        do {
            let adapted = try await interruptible { try await interceptor.adapt(self.originalRequest, for: self) }
            didAdapt(to: adapted)
            notifyMonitors { $0.request(self, didAdapt: self.originalRequest, to: adapted) }
            return adapted
        } catch {
            if isCancelled { throw .session(.taskCancelled) }
            notifyMonitors { $0.request(self, didFailToAdapt: self.originalRequest, with: error) }
            throw .adaptation(error)
        }
    }

    /// Returns when the request is to be sent again.
    ///
    /// - Throws: the failure that the request ends with.
    func waitToRetry(after failure: RequestFailure) async throws(RequestFailure) {
        if isCancelled { throw .session(.taskCancelled) }
        guard let interceptor, failure.mayBeRetried else { throw failure }
        let verdict: RetryResult
        do {
            verdict = try await interruptible { await interceptor.retry(self, dueTo: failure) }
            switch verdict {
            case .doNotRetry: throw failure
            case .doNotRetryWithError(let error): throw RequestFailure.retry(error, original: failure)
            case .retry: break
            case .retryWithDelay(let delay): try await interruptible { try await Task.sleep(for: delay) }
            }
        } catch let error as RequestFailure {
            throw error
        } catch {
            throw .session(.taskCancelled)
        }
        willRetry()
        notifyMonitors { $0.requestIsRetrying(self) }
    }
}
