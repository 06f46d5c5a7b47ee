public import HTTPCore
import IOCore

/// What an `Authenticator` makes requests with: tokens, mostly.
public protocol AuthenticationCredential: Sendable {
    /// Whether it is worth no request any more: expired, or close to it. Asked before each request.
    var requiresRefresh: Bool { get }
}

/// Knows how credentials go into requests, and how to get new ones.
public protocol Authenticator<Credential>: Sendable {
    /// What this authenticator works with.
    associatedtype Credential: AuthenticationCredential

    /// Puts the credential into a request. A request to another host than the credential is for is to be left as it is.
    func apply(_ credential: Credential, to request: inout HTTPRequest) throws

    /// Gets a new credential: once at a time, however many requests wait for it.
    ///
    /// Requests of its own it makes without this interceptor, as `HTTPSessionManager.data(for:)` does, or they wait for
    /// themselves.
    ///
    /// - Throws: whatever went wrong. All requests that wait fail with it.
    func refresh(_ credential: Credential, for manager: HTTPSessionManager) async throws -> Credential

    /// Whether a request failed because of its credential: a status of 401, mostly.
    func didRequest(_ request: HTTPRequest, with response: ResponseHead, failDueTo failure: RequestFailure) -> Bool

    /// Whether the request was made with this credential. When not, it is made again with the present one, which another
    /// request has refreshed meanwhile.
    func isRequest(_ request: HTTPRequest, authenticatedWith credential: Credential) -> Bool
}

/// Why the interceptor lets no request out.
public enum AuthenticationError: Error, Sendable, Hashable {
    /// There is no credential: set one.
    case missingCredential
    /// More refreshes within the window than are allowed: the new credentials do not work either.
    case excessiveRefresh
}

/// Puts a credential into every request, and refreshes it when it is about to expire or was refused. One refresh serves
/// all requests: those that come meanwhile wait for it.
///
/// `@unchecked Sendable`: what changes is in `shared`, behind `lock`.
public final class AuthenticationInterceptor<Provider: Authenticator>: RequestInterceptor, @unchecked Sendable {
    /// The authenticator's.
    public typealias Credential = Provider.Credential

    /// How many refreshes there may be in so much time; then `excessiveRefresh`.
    public struct RefreshWindow: Sendable, Hashable {
        /// How far back refreshes count.
        public var interval: Duration
        /// How many there may be in it.
        public var maximumAttempts: Int

        /// Five in thirty seconds, unless told otherwise.
        public init(interval: Duration = .seconds(30), maximumAttempts: Int = 5) {
            self.interval = interval
            self.maximumAttempts = maximumAttempts
        }
    }

    /// Puts credentials into requests, and refreshes them.
    public let authenticator: Provider
    /// Nil: refreshes are not counted.
    public let refreshWindow: RefreshWindow?
    private let lock = PosixLock()
    private var shared: Shared

    private struct Shared {
        var credential: Credential?
        /// Counts what was set from outside, so that a refresh that ends later does not undo it.
        var version = 0
        var refresh: Task<Credential, any Error>?
        var refreshes: [ContinuousClock.Instant] = []
    }

    /// - Parameters:
    ///   - authenticator: puts the credential into requests, and gets new ones.
    ///   - credential: the first one; with nil, requests fail with `missingCredential` until one is set.
    ///   - refreshWindow: nil for no limit.
    public init(
        authenticator: Provider,
        credential: Credential? = nil,
        refreshWindow: RefreshWindow? = RefreshWindow()
    ) {
        self.authenticator = authenticator
        self.refreshWindow = refreshWindow
        shared = Shared(credential: credential)
    }

    /// What requests are made with. What is set here while a refresh is under way stays.
    public var credential: Credential? {
        get { lock.withLock { shared.credential } }
        set {
            lock.withLock {
                shared.credential = newValue
                shared.version += 1
            }
        }
    }

    // MARK: RequestInterceptor

    /// The request with the credential in it. Waits for a refresh that is under way, and begins one when the credential
    /// asks for it.
    ///
    /// - Throws: `AuthenticationError`, and what the authenticator throws.
    public func adapt(_ request: HTTPRequest, for subject: Request) async throws -> HTTPRequest {
        var request = request
        var credential: Credential
        if let refresh = lock.withLock({ shared.refresh }) {
            credential = try await refresh.value
        } else if let present = self.credential {
            credential = present
        } else {
            throw AuthenticationError.missingCredential
        }
        if credential.requiresRefresh { credential = try await refreshed(credential, for: subject.manager) }
        try authenticator.apply(credential, to: &request)
        return request
    }

    /// Asks for another attempt when the authenticator takes the failure for one of the credential: after a refresh, or
    /// at once when the credential has been refreshed since the request was made.
    public func retry(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult {
        let sent = request.request
        guard let response = failure.response?.response,
            authenticator.didRequest(sent, with: response, failDueTo: failure)
        else { return .doNotRetry }
        guard let credential else { return .doNotRetryWithError(AuthenticationError.missingCredential) }
        guard authenticator.isRequest(sent, authenticatedWith: credential) else { return .retry }
        do {
            _ = try await refreshed(credential, for: request.manager)
            return .retry
        } catch {
            return .doNotRetryWithError(error)
        }
    }

    // MARK: The refresh

    /// The credential of the refresh that is under way, or of one that begins now.
    private func refreshed(_ old: Credential, for manager: HTTPSessionManager) async throws -> Credential {
        let refresh: Result<Task<Credential, any Error>, AuthenticationError> = lock.withLock {
            if let ongoing = shared.refresh { return .success(ongoing) }
            guard !isExcessive() else { return .failure(.excessiveRefresh) }
            let version = shared.version
            let began = Task(executorPreference: BlockingThreads.shared) { [self] in
                let result: Result<Credential, any Error>
                do {
                    result = .success(try await authenticator.refresh(old, for: manager))
                } catch {
                    result = .failure(error)
                }
                return try endRefresh(version, result).get()
            }
            shared.refresh = began
            return .success(began)
        }
        return try await refresh.get().value
    }

    private func endRefresh(_ version: Int, _ result: Result<Credential, any Error>) -> Result<Credential, any Error> {
        lock.withLock {
            shared.refresh = nil
            guard shared.version == version else {
                // Another was set meanwhile, or taken away.
                return shared.credential.map { .success($0) } ?? .failure(AuthenticationError.missingCredential)
            }
            if case .success(let credential) = result { shared.credential = credential }
            return result
        }
    }

    /// Counts a refresh that is about to begin, if it may. With `lock` held.
    private func isExcessive() -> Bool {
        guard let refreshWindow else { return false }
        let now = ContinuousClock.now
        shared.refreshes.removeAll { $0 + refreshWindow.interval < now }
        guard shared.refreshes.count < refreshWindow.maximumAttempts else { return true }
        shared.refreshes.append(now)
        return false
    }
}
