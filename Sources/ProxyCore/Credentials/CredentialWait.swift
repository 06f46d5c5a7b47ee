// SPDX-License-Identifier: Apache-2.0
import IOCore
import ProxyConfiguration

/// A request that waits for the sources of its rule's credentials: for all of them, or for one that fails, and no longer than it may.
final class CredentialWait {
    private let board: CredentialBoard
    private let loop: EventLoop
    private var tickets: [(place: Int, ticket: CredentialBoard.Ticket)] = []
    private var timer: LoopTimer!
    /// Nil when it is over.
    private var completion: ((Problem?) -> Void)?

    /// - Parameters:
    ///   - refused: for each place the value that a server has refused, so that another one is waited for; nil where any will do.
    ///   - completion: called once and later. Nil: the values are there.
    init(
        for rule: RuleCredentials,
        _ refused: [CredentialValue?],
        on board: CredentialBoard,
        loop: EventLoop,
        atMost limit: TimeSpan,
        _ completion: @escaping (Problem?) -> Void
    ) {
        self.board = board
        self.loop = loop
        self.completion = completion
        // Itself, until it is over: nobody else holds it.
        timer = LoopTimer { [self] in end(.waitedTooLong(for: rule)) }
        loop.arm(timer, after: limit)
        for (index, place) in rule.places.enumerated() {
            let value = refused[index]
            let ticket = board.whenReady(place, after: value) { [self] result in
                tickets.removeAll { $0.place == place }
                switch result {
                case .failure(let fault): end(Problem(fault, of: rule.definitions[index].name))
                case .success: if tickets.isEmpty { end(nil) }
                }
            }
            tickets.append((place, ticket))
        }
    }

    /// Nobody waits any more: the completion is not called.
    func cancel() {
        guard completion != nil else { return }
        completion = nil
        release()
    }

    private func end(_ problem: Problem?) {
        guard let completion = completion.take() else { return }
        release()
        completion(problem)
    }

    private func release() {
        for (place, ticket) in tickets { board.cancel(place, ticket) }
        tickets = []
        loop.remove(timer)
        timer = nil
    }
}
