// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
package import IOCore
import ProxyConfiguration
import ServerTrust
package import SessionCore

/// Runs sources of credentials on behalf of one loop: files and commands on threads of their own, requests to token servers with a
/// session of its own under the snapshot's rules.
///
/// `@unchecked Sendable`: `loop`, `files`, `settings` and `cancellation` are immutable; everything else is touched by the loop's thread
/// alone.
package final class CredentialRunner: @unchecked Sendable {
    package struct Settings: Sendable {
        package var command = CommandRun.Limits()
        /// The whole request for a token.
        package var request = TimeSpan.seconds(30)

        package init() {}
    }

    /// The result of a run.
    struct Outcome: Sendable {
        var result: Result<[UInt8], CredentialFault>
        /// The files that were read, to watch.
        var record = FileRecord()
    }

    let loop: EventLoop
    private let settings: Settings
    private let lists: RevocationListSource?
    private let files = WorkThread(name: "credentials-file")
    private let cancellation = CommandCancellation()
    private var commands = CommandThreads()
    private var snapshot: PolicySnapshot
    private var router: Router
    private var session: LoopSession?
    /// Retired sessions, until their last request is over.
    private var leaving: [ObjectIdentifier: LoopSession] = [:]
    private var isStopping = false
    /// Called when all sessions are gone after `stop`.
    private var didStop: (() -> Void)?

    package init(
        _ snapshot: PolicySnapshot,
        loop: EventLoop,
        settings: Settings = Settings(),
        lists: RevocationListSource? = nil
    ) {
        self.loop = loop
        self.settings = settings
        self.lists = lists
        self.snapshot = snapshot
        router = Self.router(snapshot, settings)
    }

    private static func router(_ snapshot: PolicySnapshot, _ settings: Settings) -> Router {
        var timeouts = TaskTimeouts(snapshot.configuration.defaults.timeouts)
        timeouts.spans.total = min(timeouts.spans.total ?? settings.request, settings.request)
        return Router(snapshot: snapshot, timeouts: timeouts)
    }

    // MARK: The loop's thread

    /// Runs the source of a credential.
    ///
    /// - Parameter completion: called once on the loop's thread, not from within this call.
    func run(_ definition: CredentialDefinition, _ completion: @escaping (Outcome) -> Void) {
        if let path = definition.source.file { return readFile(path, completion) }
        if let words = definition.source.command { return runCommand(words, completion) }
        switch definition.source {
        case .env(let name):
            // The environment does not change while this program runs, and nobody else reads it in a way that could block.
            let value = getenv(name).map { Array(String(cString: $0).utf8) }
            let fault = CredentialFault(.source, "the variable \(name) is not set")
            endLater(value.map { .success($0) } ?? .failure(fault), completion)
        case .oauth2(let client):
            readFile(client.clientSecretFile) { [self] outcome in
                request(client, outcome, allowUnpinned: definition.allowUnpinned, completion)
            }
        case .file, .command, .awsSigV4: break
        }
    }

    /// Uses another snapshot's rules from now on.
    func adopt(_ next: PolicySnapshot) {
        snapshot = next
        router = Self.router(next, settings)
        retireSession()
    }

    /// Does work on the thread for files; `then` is called on this one.
    func onFiles<Value: Sendable>(_ work: @escaping @Sendable () -> Value, then: @escaping (Value) -> Void) {
        let continuation = Continuation(then)
        files.submit { [loop] in
            let value = work()
            loop.submit { continuation.resume(value) }
        }
    }

    /// Ends what is under way.
    ///
    /// - Parameter completion: called when nothing is left on the loop, perhaps from within this call.
    func beginStop(_ completion: @escaping () -> Void) {
        isStopping = true
        cancellation.cancel()
        retireSession()
        guard !leaving.isEmpty else { return completion() }
        didStop = completion
        for session in leaving.values { session.invalidateSession(cancelingTasks: true) }
    }

    /// Waits for the threads. Called when the loop has ended.
    func join() {
        files.stop()
        commands.stop()
    }

    private func endLater(_ result: Result<[UInt8], CredentialFault>, _ completion: @escaping (Outcome) -> Void) {
        loop.atEndOfTurn { completion(Outcome(result: result)) }
    }

    // MARK: Files and commands

    private func readFile(_ path: String, _ completion: @escaping (Outcome) -> Void) {
        onFiles {
            let (contents, record) = FileRecord.recording { FileContents.read(path, limit: CredentialOutput.mostBytes) }
            return Outcome(
                result: contents.mapError { CredentialFault(.source, "the file \(path) \($0.message)") },
                record: record
            )
        } then: {
            completion($0)
        }
    }

    private func runCommand(_ words: [String], _ completion: @escaping (Outcome) -> Void) {
        let run = CommandRun(
            words,
            environment: CommandRun.environment(without: snapshot.configuration.variables),
            limits: settings.command,
            cancellation: cancellation
        )
        let continuation = Continuation(completion)
        commands.submit(on: loop, { Result { () throws(CredentialFault) in try run.output() } }) {
            continuation.resume(Outcome(result: $0))
        }
    }

    // MARK: Token servers

    private func request(
        _ client: OAuthClient,
        _ file: Outcome,
        allowUnpinned: Bool,
        _ completion: @escaping (Outcome) -> Void
    ) {
        func fail(_ fault: CredentialFault) { endLater(.failure(fault), completion) }
        var bytes: [UInt8]
        switch file.result {
        case .failure(let fault): return fail(fault)
        case .success(let contents): bytes = contents
        }
        if bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
        if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        let isText = !bytes.isEmpty && bytes.allSatisfy { $0 >= 0x20 && $0 < 0x7F }
        guard isText else {
            return fail(CredentialFault(.output, "the file \(client.clientSecretFile) does not hold one line of ASCII"))
        }
        let secret = SecretBytes(bytes)
        bytes.wipe()
        guard !isStopping, let session = currentSession() else {
            return fail(CredentialFault(.source, "there is no session for it"))
        }
        let origin = client.tokenURL.origin
        guard mayHaveSecret(origin, allowUnpinned: allowUnpinned) else { return fail(OAuthRequest.notHeld) }
        switch router.endpoint(origin) {
        case .failure(let problem):
            fail(CredentialFault(.source, "the token server may not be asked: \(problem.details)"))
        case .success(let endpoint):
            guard endpoint.scheme == .https else { return fail(OAuthRequest.notHeld) }
            OAuthRequest.start(client, secret: secret, allowUnpinned: allowUnpinned, at: endpoint, on: session) {
                completion(Outcome(result: $0))
            }
        }
    }

    /// As for every credential: pins that decide now, or a host that no pins are for and an owner who says so. A kept connection
    /// asks nobody else.
    private func mayHaveSecret(_ origin: Origin, allowUnpinned: Bool) -> Bool {
        let pins = snapshot.pinnedDomains
        if pins.isHeldToPins(host: origin.host, port: origin.port, at: loop.freshWallClock / 1_000_000) { return true }
        guard allowUnpinned else { return false }
        guard let policy = pins.policy(host: origin.host, port: origin.port) else { return true }
        return !policy.hasPins && !policy.isUnverified
    }

    private func currentSession() -> LoopSession? {
        if session == nil {
            var configuration = SessionConfiguration()
            configuration.resolver = snapshot.configuration.resolver
            configuration.connectionPoolSize = 4
            configuration.responseHeadBytes = min(snapshot.configuration.limits.responseHeadBytes, 64 << 10)
            configuration.revocationLists = lists
            session = try? LoopSession(loop: loop, configuration: configuration)
        }
        return session
    }

    private func retireSession() {
        guard let retired = session else { return }
        session = nil
        let identifier = ObjectIdentifier(retired)
        leaving[identifier] = retired
        retired.sessionDidBecomeInvalid = { [unowned self] in
            leaving[identifier] = nil
            if isStopping, leaving.isEmpty { didStop?() }
        }
        retired.invalidateSession(cancelingTasks: false)
    }
}

/// Hands a closure of the loop's thread through another thread.
///
/// `@unchecked Sendable`: made and called on the loop's thread; the other one only hands it back.
private final class Continuation<Value>: @unchecked Sendable {
    private let body: (Value) -> Void

    init(_ body: @escaping (Value) -> Void) { self.body = body }

    func resume(_ value: Value) { body(value) }
}

/// Threads for commands: a command that hangs delays no other one, up to a number. For the loop's thread.
private struct CommandThreads {
    private final class Pool: @unchecked Sendable {
        var idle: [WorkThread] = []
        var all: [WorkThread] = []
        var waiting: [(WorkThread) -> Void] = []
    }

    private static let most = 8
    private let pool = Pool()

    /// - Parameter then: called on the loop's thread.
    func submit<Value: Sendable>(
        on loop: EventLoop,
        _ work: @escaping @Sendable () -> Value,
        then: @escaping (Value) -> Void
    ) {
        let pool = pool
        let continuation = Continuation<Value>(then)
        let start: (WorkThread) -> Void = { thread in
            let isTaken = thread.submit {
                let value = work()
                loop.submit {
                    if pool.waiting.isEmpty { pool.idle.append(thread) } else { pool.waiting.removeFirst()(thread) }
                    continuation.resume(value)
                }
            }
            // Without a thread it is done late rather than never: the next command has one.
            if !isTaken { pool.idle.append(thread) }
        }
        if let thread = pool.idle.popLast() { return start(thread) }
        guard pool.all.count < Self.most else { return pool.waiting.append(start) }
        let thread = WorkThread(name: "credentials-\(pool.all.count)")
        pool.all.append(thread)
        start(thread)
    }

    func stop() {
        for thread in pool.all { thread.stop() }
    }
}
