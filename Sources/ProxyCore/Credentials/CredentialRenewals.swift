import HTTPCore
package import IOCore
package import SessionCore
import Synchronization

/// Keeps the values of the credentials that rules name: has their sources run when they are due, and tells the workers' boards. Its
/// thread starts with the first policy that has credentials; where none has, there is none.
package final class CredentialRenewals: Sendable {
    package struct Settings: Sendable {
        package var runs = CredentialRunner.Settings()
        package var log: @Sendable (EventLine, LogConfiguration.Level, LogConfiguration.Level) -> Void = {
            $0.write($1, at: $2)
        }
        package var lists: RevocationListSource?

        package init() {}
    }

    /// What is known of one credential, for metrics and the admin listener. It has no part of a value.
    package struct Figures: Sendable {
        package var name: String
        /// Whether a value is held.
        package var hasValue = false
        /// Seconds since 1970; nil without a value, and for one without an end.
        package var end: Int64?
        /// Why the last run failed; nil after a success.
        package var fault: CredentialFault?
        /// Seconds since 1970 of the last run that succeeded; nil: none.
        package var renewedAt: Int64?
        package var renewals = 0
        /// Failed runs by their codes.
        package var failures: [CredentialFault.Code: Int] = [:]
    }

    private enum State {
        case idle
        case running(CredentialLoop)
        case stopped
    }

    private let settings: Settings
    private let register = CredentialRegister()
    private let state = Mutex(State.idle)

    /// - Parameter snapshot: its credentials are fetched at once.
    package init(snapshot: PolicySnapshot, settings: Settings = Settings()) {
        self.settings = settings
        replace(snapshot)
    }

    deinit { stop() }

    /// Uses another snapshot's credentials and rules from now on. A credential that is defined as before keeps its value.
    package func replace(_ snapshot: PolicySnapshot) {
        state.withLock { state in
            switch state {
            case .running(let loop): loop.replace(snapshot)
            case .stopped: break
            case .idle:
                guard !snapshot.usedCredentials.isEmpty else { return }
                // Without a thread every credential fails, which its requests say.
                guard let loop = try? CredentialLoop(snapshot, register, settings) else { return }
                state = .running(loop)
            }
        }
    }

    /// A board for the credentials of a snapshot, on one worker's loop.
    package func board(for snapshot: PolicySnapshot, on loop: EventLoop) -> CredentialBoard {
        let definitions = snapshot.configuration.credentials
        let handle = BoardHandle(loop, definitions)
        let board = CredentialBoard(count: definitions.count, loop: loop) { [weak self] index, refused in
            self?.ask(definitions[index], index, refused, handle)
        }
        handle.board = board
        register.add(handle, board)
        return board
    }

    private func ask(_ definition: CredentialDefinition, _ index: Int, _ refused: Int?, _ handle: BoardHandle) {
        let loop: CredentialLoop? = state.withLock { if case .running(let loop) = $0 { loop } else { nil } }
        guard let loop else {
            var news = CredentialNews()
            news.fault = CredentialFault(.source, "there is no thread for it")
            return handle.publish(index, news, refused.map { .refused(version: $0) } ?? .wanted)
        }
        loop.ask(definition, index, refused, handle)
    }

    /// What is known of each credential, in the order of the configuration.
    package var figures: [Figures] { register.figures }

    /// Ends the thread, and the commands that are running.
    package func stop() {
        let former = state.withLock { state in
            defer { state = .stopped }
            return state
        }
        if case .running(let loop) = former { loop.stop() }
    }
}

extension PolicySnapshot {
    /// The credentials that some rule names.
    var usedCredentials: [CredentialDefinition] {
        let names = Set(configuration.requests?.rules.flatMap(\.credentials) ?? [])
        return configuration.credentials.filter { names.contains($0.name) }
    }
}

/// A board as the thread of the renewals knows it.
///
/// `@unchecked Sendable`: `board` is set before anybody else has the handle, and then read on the board's loop alone.
final class BoardHandle: @unchecked Sendable {
    let loop: EventLoop
    /// The places of each definition.
    let places: [CredentialDefinition: Int]
    fileprivate(set) weak var board: CredentialBoard?

    init(_ loop: EventLoop, _ definitions: [CredentialDefinition]) {
        self.loop = loop
        places = Dictionary(
            definitions.enumerated().map { ($0.element, $0.offset) },
            uniquingKeysWith: { old, _ in old }
        )
    }

    func publish(_ index: Int, _ news: CredentialNews, _ answer: CredentialBoard.Answer) {
        loop.submit { [self] in board?.publish(index, news, answer) }
    }
}

/// The boards, and the latest news for new ones, behind a lock that no request takes.
final class CredentialRegister: Sendable {
    private struct Contents {
        var boards: [BoardHandle] = []
        var news: [CredentialDefinition: CredentialNews] = [:]
        var figures: [CredentialRenewals.Figures] = []
    }

    private let contents = Mutex(Contents())

    func add(_ handle: BoardHandle, _ board: CredentialBoard) {
        contents.withLock { contents in
            contents.boards.removeAll { $0.board == nil }
            contents.boards.append(handle)
            for (definition, index) in handle.places {
                if let news = contents.news[definition] { board.start(index, news) }
            }
        }
    }

    /// Tells all boards that a run has ended.
    func publish(_ news: CredentialNews, of definition: CredentialDefinition) {
        let boards = contents.withLock { contents in
            contents.news[definition] = news
            return contents.boards
        }
        for handle in boards {
            if let index = handle.places[definition] { handle.publish(index, news, .run) }
        }
    }

    func forget(_ definition: CredentialDefinition) {
        contents.withLock { $0.news[definition] = nil }
    }

    var figures: [CredentialRenewals.Figures] {
        get { contents.withLock { $0.figures } }
        set { contents.withLock { $0.figures = newValue } }
    }

    func change(_ name: String, _ change: (inout CredentialRenewals.Figures) -> Void) {
        contents.withLock { contents in
            guard let place = contents.figures.firstIndex(where: { $0.name == name }) else { return }
            change(&contents.figures[place])
        }
    }
}
