// SPDX-License-Identifier: Apache-2.0
/// Where a request is on its way through the cache.
package enum CacheFlowState: String, CaseIterable, Sendable {
    case idle, lookingUp, joining, waiting, sharing, opening, asking, storing, removing, relaying, finishing, over
}

/// The states of a `CacheFlow`, each with those that may follow it. docs/develop/cache.md shows them; a test walks through all.
package enum CacheFlowTable {
    /// A state, and what may come next.
    package struct Row: Sendable {
        package let state: CacheFlowState
        /// The purpose of the state, in a few words.
        package let meaning: StaticString
        package let next: [CacheFlowState]
    }

    package static let rows = [
        Row(state: .idle, meaning: "before the request", next: [.lookingUp, .sharing, .asking, .over]),
        Row(
            state: .lookingUp,
            meaning: "memory and disk look for stored responses",
            next: [.joining, .sharing, .opening, .asking, .over]
        ),
        Row(
            state: .joining,
            meaning: "asks whether another request for the key is at the origin",
            next: [.waiting, .lookingUp, .sharing, .asking, .over]
        ),
        Row(
            state: .waiting,
            meaning: "waits for the response to another request",
            next: [.lookingUp, .sharing, .asking, .over]
        ),
        Row(
            state: .sharing,
            meaning: "the level that machines share looks for a stored response, or waits for another machine",
            next: [.asking, .over]
        ),
        Row(
            state: .opening,
            meaning: "the file of a stored body is opened",
            next: [.joining, .sharing, .asking, .relaying, .over]
        ),
        Row(
            state: .asking,
            meaning: "the request is at the origin",
            next: [.asking, .opening, .storing, .removing, .relaying, .over]
        ),
        Row(
            state: .storing,
            meaning: "the store finds room for the body",
            next: [.asking, .relaying, .over]
        ),
        Row(
            state: .removing,
            meaning: "what the response invalidates is removed",
            next: [.relaying, .over]
        ),
        Row(
            state: .relaying,
            meaning: "the origin's response goes to the client, and into the store",
            next: [.finishing, .over]
        ),
        Row(state: .finishing, meaning: "the store completes the body", next: [.over]),
        Row(state: .over, meaning: "the cache has nothing more to do", next: []),
    ]

    /// Whether `next` may follow `state`.
    static func permits(_ state: CacheFlowState, _ next: CacheFlowState) -> Bool {
        if next == .over { return state != .over }
        return rows.first { $0.state == state }?.next.contains(next) ?? false
    }
}
