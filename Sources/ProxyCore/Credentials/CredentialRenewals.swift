// SPDX-License-Identifier: Apache-2.0
package import IOCore
import ProxyConfiguration

/// Keeps the values of the credentials that rules name: has their sources run when they are due, and tells the workers' boards. Its
/// thread starts with the first policy that has credentials; where none has, there is none.
package final class CredentialRenewals: Sendable {
    private enum State {
        case idle
        case running(CredentialLoop)
        case stopped
    }

    private let settings: CredentialSettings
    private let register = CredentialRegister()
    private let state = Locked(State.idle)

    /// - Parameter snapshot: its credentials are fetched at once.
    package init(snapshot: PolicySnapshot, settings: CredentialSettings = CredentialSettings()) {
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

    /// The state of each credential, in the order of the configuration.
    package var figures: [CredentialFigures] { register.figures }

    /// Ends the thread, and the commands that are running.
    package func stop() {
        let former = state.withLock { state in
            defer { state = .stopped }
            return state
        }
        if case .running(let loop) = former { loop.stop() }
    }
}
