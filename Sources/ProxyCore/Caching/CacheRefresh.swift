// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore

/// A background refresh of a stored response that a client received stale (`stale-while-revalidate`, RFC 5861).
///
/// Each of its requests is sent under the current policy, if the stored response is bound to that policy; otherwise the
/// refresh is given up. It has a line in the task log.
final class CacheRefresh: CacheStageDelegate {
    private let setting: Setting
    /// Trace and id of the refresh.
    let identity: RequestIdentity?
    private(set) var ruling: RequestRuling
    /// The credentials that the rule gives to the request.
    private(set) var credentials: RuleCredentials?
    private var request: SessionRequest
    /// The generation that the request's endpoint was found in.
    private var generation: Generation
    let startTime: Int64
    private(set) var error: SessionError?
    /// The number of reloads that ended the request before it was sent.
    private var restarts = 0
    private var isRepetition = false
    /// The values of the latest request's credentials.
    private var sent: CredentialFields?

    private static let restartLimit = 4

    /// The circumstances under which the stale response is served.
    struct Setting {
        let services: WorkerServices
        let listener: ListenerRoutes
        let generation: Generation
        let route: Route
        /// The user whose request has found the stale response.
        let user: [UInt8]?
        /// The credentials of that request.
        let credentials: RuleCredentials?
        /// The request follows a redirect, whose rule may have added fields too.
        let isHop: Bool
        /// Trace and id of that request; nil where requests have neither.
        let identity: RequestIdentity?
    }

    /// Sends a request to the origin, unless another refresh is under way.
    static func start(_ served: CacheTransaction, like request: SessionRequest, _ setting: Setting) {
        var request = request
        request.timeouts = nil
        request.isRepetition = false
        // The request is a GET, whatever the client has sent.
        var ruling = RequestRuling()
        guard isAllowed(request, by: setting.route.rules, setting.user, &ruling) else { return }
        // The rule of a GET may give others than that of the client's request, whose stored responses are not for these.
        let credentials = setting.generation.credentials?.credentials(ofRule: ruling.allowingRule)
        guard credentials?.partition == setting.credentials?.partition else { return }
        CacheStage.refresh(served, like: request, delegate: CacheRefresh(request, setting, ruling, credentials))
    }

    private init(
        _ request: SessionRequest,
        _ setting: Setting,
        _ ruling: RequestRuling,
        _ credentials: RuleCredentials?
    ) {
        self.request = request
        self.setting = setting
        self.ruling = ruling
        self.credentials = credentials
        generation = setting.generation
        startTime = setting.services.loop.wallClock
        identity = setting.identity?.follower()
    }

    private var services: WorkerServices { setting.services }

    var logPrefix: [UInt8] { setting.route.logPrefix }
    var target: [UInt8] { request.target }

    /// The endpoint under the current policy; nil when the refresh must be given up.
    private func endpoint(for transaction: CacheTransaction) -> Endpoint? {
        if generation === services.generation { return request.endpoint }
        guard !setting.isHop else { return nil }
        let route = setting.listener.route(toHop: request.endpoint.origin, under: services.generation.router)
        guard services.cache === transaction.cache, case .origin(let endpoint) = route.destination,
            endpoint.origin == request.endpoint.origin,
            route.cache?.digest(at: services.loop.wallClock / 1_000_000) == transaction.digest,
            route.requestHeaders == setting.route.requestHeaders
        else { return nil }
        guard Self.isAllowed(request, by: route.rules, setting.user, &ruling) else { return nil }
        let current = services.generation.credentials?.credentials(ofRule: ruling.allowingRule)
        // A second look has the same result: the refresh keeps its credentials unless the new ones may use the stored response.
        guard current?.partition == credentials?.partition else { return nil }
        credentials = current
        return endpoint
    }

    /// Whether the rules let the user send the request of the refresh.
    private static func isAllowed(
        _ request: SessionRequest,
        by rules: HostRules?,
        _ user: [UInt8]?,
        _ ruling: inout RequestRuling
    ) -> Bool {
        guard let rules else { return true }
        let verdict = rules.judge(.get, target: request.target.span, fields: request.fields, user: user)
        return ruling.note(verdict, by: rules) == nil
    }

    func stage(_ stage: CacheStage, ask request: SessionRequest) -> LoopTask? {
        guard let endpoint = endpoint(for: stage.transaction) else { return nil }
        var request = request
        request.endpoint = endpoint
        request.isRepetition = isRepetition
        if let cause = setting.identity { identity?.write(inPlaceOf: cause, to: &request.fields) }
        generation = services.generation
        self.request = request
        var guarded: GuardedFields?
        if let credentials {
            // A refresh has no client who waits: it is given up where the credential is not at hand.
            guard let desk = generation.credentials, case .ready = desk.outcome(for: credentials) else { return nil }
            let fields = desk.fields(for: credentials, of: request)
            sent = fields
            guarded = fields.guarded
        }
        let task = generation.manager.dataTask(with: request, delegate: stage)
        if guarded != nil { task.guarded = guarded }
        task.resume()
        return task
    }

    func stage(_ stage: CacheStage, wasHandedBack task: LoopTask) {
        restarts += 1
        isRepetition = task.wasRepeated
        // It has sent nothing: the next request has the line.
        let mayGoOn = endpoint(for: stage.transaction) != nil
        if restarts <= Self.restartLimit, mayGoOn { return stage.ask(request.fields) }
        error = mayGoOn ? task.error : Self.givenUp
        log(task, stage.transaction)
        stage.leave()
    }

    func stage(_ stage: CacheStage, didComplete task: LoopTask, _ error: SessionError?, asksAgain: Bool) {
        self.error = error
        if task.metrics.transaction.status == 401, let credentials, let sent {
            generation.credentials?.renew(credentials, sent)
        }
        isRepetition = task.wasRepeated
        let goesOn = asksAgain && endpoint(for: stage.transaction) != nil
        if asksAgain, !goesOn { self.error = Self.givenUp }
        log(task, stage.transaction, goesOn: goesOn)
    }

    /// Counts and logs a request of the refresh.
    ///
    /// - Parameter goesOn: another request follows, and the refresh has its spans then.
    private func log(_ task: LoopTask, _ transaction: CacheTransaction, goesOn: Bool = false) {
        services.counters.note(task.metrics.transaction)
        if let error { services.noteFailure(Problem.Code(error.code), of: task) }
        services.log { $0.write(self, task, transaction.outcome, to: &$1) }
        if !goesOn, let identity, let trace = identity.trace, trace.isSampled {
            services.trace {
                SpanRecord(
                    self,
                    identity,
                    in: trace,
                    task,
                    transaction.outcome,
                    wallClock: services.loop.wallClock,
                    masking: $0
                )
            }
        }
    }

    private static let givenUp = SessionError(
        .cancelled,
        "The refresh was given up: a reload has changed the policy for the stored response."
    )
}

extension Route {
    /// The fields that the configuration adds to requests.
    fileprivate var requestHeaders: FieldChanges { hooks?.headers.request ?? FieldChanges() }
}
