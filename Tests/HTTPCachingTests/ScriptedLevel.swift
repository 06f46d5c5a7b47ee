// SPDX-License-Identifier: Apache-2.0
@testable import HTTPCaching

/// A level that machines share whose replies are the test's.
final class ScriptedLevel: SharedLevel {
    final class Ticket: SharedTicket {}

    final class LookUp: SharedLookUp {
        let question: SharedQuestion
        fileprivate(set) var isCancelled = false
        private var completion: ((SharedFinding) -> Void)?

        init(_ question: SharedQuestion, _ completion: @escaping (SharedFinding) -> Void) {
            self.question = question
            self.completion = completion
        }

        func cancel() {
            isCancelled = true
            completion = nil
        }

        func reply(_ finding: SharedFinding) { completion.take()?(finding) }
    }

    var largestBody = 1 << 20
    private(set) var lookUps: [LookUp] = []
    private(set) var stored: [(entry: CachedEntry, ticket: any SharedTicket)] = []
    private(set) var returned: [(ticket: any SharedTicket, isForOthers: Bool)] = []
    private(set) var removals: [(keys: [CacheKey], completion: () -> Void)] = []

    func lookUp(_ question: SharedQuestion, _ completion: @escaping (SharedFinding) -> Void) -> any SharedLookUp {
        let lookUp = LookUp(question, completion)
        lookUps.append(lookUp)
        return lookUp
    }

    func store(_ entry: CachedEntry, with ticket: any SharedTicket) { stored.append((entry, ticket)) }

    func giveBack(_ ticket: any SharedTicket, isForOthers: Bool) { returned.append((ticket, isForOthers)) }

    func invalidate(_ keys: [CacheKey], _ completion: @escaping () -> Void) { removals.append((keys, completion)) }
}
