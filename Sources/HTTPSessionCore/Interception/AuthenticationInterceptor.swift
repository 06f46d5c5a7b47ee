// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import IOCore

/// The credential of an `Authenticator`, mostly a token.
public protocol AuthenticationCredential: Sendable {
    /// Whether the credential has expired, or expires soon. Called before each request.
    var requiresRefresh: Bool { get }
}

/// Adds credentials to requests, and gets new ones.
public protocol Authenticator<Credential>: Sendable {
    /// The type of the credential.
    associatedtype Credential: AuthenticationCredential

    /// Adds the credential to a request. A request to a host that the credential is not for has to stay as it is.
    func apply(_ credential: Credential, to request: inout HTTPSessionRequest) throws

    /// Gets a new credential. There is one call at a time, for all waiting requests.
    ///
    /// Its own requests pass the interceptor by: they get no credential, and their failure is no reason for a further refresh.
    /// Other interceptors of the manager see them. A request that is made on a dispatch queue or in a detached task is not known
    /// to be one of them, and would wait for itself: `HTTPSessionManager.data(for:)` uses no interceptor at all.
    ///
    /// - Throws: any error; all waiting requests fail with it, as the `underlying` of a `CredentialRefreshError`.
    func refresh(_ credential: Credential, for manager: HTTPSessionManager) async throws -> Credential

    /// Whether a request failed because of its credential, mostly with a status of 401.
    func didRequest(_ request: HTTPSessionRequest, with response: ResponseHead, failDueTo failure: RequestFailure)
        -> Bool

    /// Whether the request was sent with this credential. If not, it is sent again with the present one, which another
    /// request has refreshed meanwhile.
    func isRequest(_ request: HTTPSessionRequest, authenticatedWith credential: Credential) -> Bool
}

/// The interceptor's reasons to send no request.
public enum AuthenticationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// No credential has been set.
    case missingCredential
    /// The credential is for the origin of the manager's base URL, and there is none.
    case missingHosts
    /// There were more refreshes within the window than allowed: the new credentials do not work either.
    case excessiveRefresh

    public var description: String {
        switch self {
        case .missingCredential: "The interceptor has no credential. Set one before the request."
        case .missingHosts:
            "The interceptor names no hosts for its credential, and the manager has no base URL. Name them: hosts: .named([…])."
        case .excessiveRefresh: "More refreshes than refreshWindow allows did not bring a credential that works."
        }
    }
}

/// The servers that get the credential of an `AuthenticationInterceptor`. Requests to others go out without it.
public enum CredentialHosts: Sendable, Hashable {
    /// The origin of the manager's base URL: scheme, host and port.
    case baseURL
    /// These hosts, over https, on any port.
    case named(Set<Host>)
    /// Every server that a request names. `Authenticator.apply` decides alone.
    case all
}

/// Adds a credential to the requests to its hosts, and refreshes it when it is about to expire or was rejected. One refresh
/// serves all requests that wait meanwhile.
///
/// `@unchecked Sendable`: what changes is in `shared`, accessed with `lock` held.
public final class AuthenticationInterceptor<Provider: Authenticator>: RequestInterceptor, @unchecked Sendable {
    /// The authenticator's credential.
    public typealias Credential = Provider.Credential

    /// The limit of refreshes; `excessiveRefresh` is thrown beyond it.
    public struct RefreshWindow: Sendable, Hashable {
        /// The period in which refreshes are counted.
        public var interval: Duration
        /// The largest number of refreshes in this period.
        public var maximumAttempts: Int

        /// A limit, by default of five refreshes in thirty seconds.
        public init(interval: Duration = .seconds(30), maximumAttempts: Int = 5) {
            self.interval = interval
            self.maximumAttempts = maximumAttempts
        }
    }

    /// Adds credentials to requests, and refreshes them.
    public let authenticator: Provider
    /// The limit of refreshes; nil for none.
    public let refreshWindow: RefreshWindow?
    /// The servers that get the credential.
    public let hosts: CredentialHosts
    private let lock = PosixLock()
    private var shared: Shared

    private struct Shared {
        var credential: Credential? {
            didSet { version += 1 }
        }
        /// Counts assignments, so that a refresh overwrites none that is later than its beginning, and none begins with a
        /// credential that has been replaced.
        var version = 0
        var refresh: Task<Held, any Error>?
        var refreshes: [ContinuousClock.Instant] = []

        var held: Held? { credential.map { Held(credential: $0, version: version) } }
    }

    /// A credential with the version of its assignment.
    private struct Held: Sendable {
        let credential: Credential
        let version: Int
    }

    /// What takes the place of a credential that is not good any more.
    private enum Renewal {
        case refresh(Task<Held, any Error>)
        /// It has been replaced already.
        case present(Held)
        case failure(AuthenticationError)
    }

    /// - Parameters:
    ///   - authenticator: adds the credential to requests, and gets new ones.
    ///   - credential: the first one; with nil, requests fail with `missingCredential` until one is set.
    ///   - refreshWindow: nil for no limit.
    ///   - hosts: the servers that get the credential; by default the origin of the manager's base URL, without which requests fail
    ///     with `missingHosts`.
    public init(
        authenticator: Provider,
        credential: Credential? = nil,
        refreshWindow: RefreshWindow? = RefreshWindow(),
        hosts: CredentialHosts = .baseURL
    ) {
        self.authenticator = authenticator
        self.refreshWindow = refreshWindow
        self.hosts = hosts
        shared = Shared(credential: credential)
    }

    /// The present credential. An assignment during a refresh takes precedence over its result.
    public var credential: Credential? {
        get { lock.withLock { shared.credential } }
        set {
            lock.withLock { shared.credential = newValue }
        }
    }

    // MARK: RequestInterceptor

    /// Adds the credential to a request to one of `hosts`. It waits for a running refresh, and starts one when the credential
    /// requires it.
    ///
    /// - Throws: `AuthenticationError`, `CredentialRefreshError`, and what `Authenticator.apply` throws.
    public func adapt(_ request: HTTPSessionRequest, for subject: Request) async throws -> HTTPSessionRequest {
        guard try isMeant(request, of: subject.manager) else { return request }
        var request = request
        var held: Held
        let (refresh, present) = lock.withLock { (shared.refresh, shared.held) }
        if let refresh {
            held = try await refresh.value
        } else if let present {
            held = present
        } else {
            throw AuthenticationError.missingCredential
        }
        if held.credential.requiresRefresh { held = try await refreshed(held, for: subject.manager) }
        try authenticator.apply(held.credential, to: &request)
        return request
    }

    /// Retries when the authenticator attributes the failure to the credential: after a refresh, or at once when the
    /// credential has been refreshed since the request was sent.
    public func retry(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult {
        let sent = request.request
        guard (try? isMeant(sent, of: request.manager)) == true else { return .doNotRetry }
        guard let response = failure.response?.response,
            authenticator.didRequest(sent, with: response, failDueTo: failure)
        else { return .doNotRetry }
        guard let held = lock.withLock({ shared.held }) else {
            return .doNotRetryWithError(AuthenticationError.missingCredential)
        }
        guard authenticator.isRequest(sent, authenticatedWith: held.credential) else { return .retry }
        do {
            _ = try await refreshed(held, for: request.manager)
            return .retry
        } catch {
            return .doNotRetryWithError(error)
        }
    }

    /// Whether the credential is for the request.
    private func isMeant(_ request: HTTPSessionRequest, of manager: HTTPSessionManager) throws -> Bool {
        if hosts == .all { return true }
        // A request whose URL cannot be read fails by itself.
        guard let origin = AbsoluteURL(request.url)?.origin else { return false }
        switch hosts {
        case .all: return true
        case .named(let names): return origin.scheme == .https && names.contains(origin.host)
        case .baseURL:
            guard let base = manager.baseOrigin else { throw AuthenticationError.missingHosts }
            return origin == base
        }
    }

    // MARK: The refresh

    /// The credential of the running refresh, or of a new one; the present one if `old` has been replaced since it was read. An
    /// authorization server may take a second refresh with it for theft, and revoke both.
    private func refreshed(_ old: Held, for manager: HTTPSessionManager) async throws -> Held {
        let renewal: Renewal = lock.withLock {
            if let ongoing = shared.refresh { return .refresh(ongoing) }
            guard shared.version == old.version else {
                return shared.held.map { Renewal.present($0) } ?? .failure(.missingCredential)
            }
            guard !isExcessive() else { return .failure(.excessiveRefresh) }
            let began = Task(executorPreference: manager.session.thread.blocking) { [self] in
                let result: Result<Credential, any Error>
                do {
                    // The request that has begun the refresh may end before it does.
                    result = .success(
                        try await InterceptorAtWork.carryOut(self, manager) {
                            try await authenticator.refresh(old.credential, for: manager)
                        }
                    )
                } catch {
                    result = .failure(error is CancellationError ? error : CredentialRefreshError(error))
                }
                return try endRefresh(old.version, result).get()
            }
            shared.refresh = began
            return .refresh(began)
        }
        switch renewal {
        case .refresh(let refresh): return try await refresh.value
        case .present(let held): return held
        case .failure(let error): throw error
        }
    }

    private func endRefresh(_ version: Int, _ result: Result<Credential, any Error>) -> Result<Held, any Error> {
        lock.withLock {
            shared.refresh = nil
            if shared.version == version {
                switch result {
                case .success(let credential): shared.credential = credential
                case .failure(let error): return .failure(error)
                }
            }
            // Otherwise the program has set or removed the credential meanwhile.
            return shared.held.map { .success($0) } ?? .failure(AuthenticationError.missingCredential)
        }
    }

    /// Counts a refresh that is about to begin, unless the limit is reached. With `lock` held.
    private func isExcessive() -> Bool {
        guard let refreshWindow else { return false }
        let now = ContinuousClock.now
        shared.refreshes.removeAll { $0 + refreshWindow.interval < now }
        guard shared.refreshes.count < refreshWindow.maximumAttempts else { return true }
        shared.refreshes.append(now)
        return false
    }
}
