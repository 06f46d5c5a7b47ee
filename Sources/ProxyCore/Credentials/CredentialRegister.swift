// SPDX-License-Identifier: Apache-2.0
import IOCore
package import ProxyConfiguration
package import SessionCore

package struct CredentialSettings: Sendable {
    package var runs = CredentialRunner.Settings()
    package var log: @Sendable (EventLine, LogConfiguration.Level, LogConfiguration.Level) -> Void = {
        $0.write($1, at: $2)
    }
    package var lists: RevocationListSource?

    package init() {}
}

/// The state of one credential, for metrics and the admin listener. It has no part of a value.
package struct CredentialFigures: Sendable {
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
    weak var board: CredentialBoard?

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
        var figures: [CredentialFigures] = []
    }

    private let contents = Locked(Contents())

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

    var figures: [CredentialFigures] {
        get { contents.withLock { $0.figures } }
        set { contents.withLock { $0.figures = newValue } }
    }

    func change(_ name: String, _ change: (inout CredentialFigures) -> Void) {
        contents.withLock { contents in
            guard let index = contents.figures.firstIndex(where: { $0.name == name }) else { return }
            change(&contents.figures[index])
        }
    }
}
