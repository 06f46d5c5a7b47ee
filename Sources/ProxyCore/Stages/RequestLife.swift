// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The life of a client's request: when it began, whether it is over and why, and how often a reload has begun it again.
///
/// A value: the exchange calls it for each event. What has to wait takes a mark along, and asks with it whether it still comes in time.
struct RequestLife {
    /// One start of one request.
    struct Mark: Equatable {
        fileprivate let number: UInt64
    }

    private(set) var isOver = true
    /// The error that the request has ended with; nil while it is under way.
    private(set) var problem: Problem?
    /// When it began, in nanoseconds of the loop's clock.
    private(set) var startedAt: UInt64 = 0
    /// The same in microseconds since 1970.
    private(set) var startedWall: Int64 = 0
    /// How often a reload has restarted the request.
    private(set) var restarts = 0
    /// Counts requests and restarts.
    private var number: UInt64 = 0

    /// A request that is still waiting after this many reloads in a row fails.
    static let restartLimit = 16

    /// A request begins.
    ///
    /// - Parameters:
    ///   - now: nanoseconds of the loop's clock.
    ///   - wall: microseconds since 1970.
    mutating func begin(at now: UInt64, wall: Int64) {
        isOver = false
        if problem != nil { problem = nil }
        restarts = 0
        number &+= 1
        startedAt = now
        startedWall = wall
    }

    /// The policy was replaced before the request was sent: it begins again, and its time goes on.
    ///
    /// - Returns: why it fails instead; nil for nearly all.
    mutating func restart() -> Problem? {
        number &+= 1
        restarts += 1
        guard restarts > Self.restartLimit else { return nil }
        return Problem(
            .sessionInvalidated,
            "The policy was replaced again and again while this request waited to be sent. Send it once more."
        )
    }

    /// The request ends.
    mutating func end(_ problem: Problem?) {
        isOver = true
        // Most have none: a copy of nothing costs as much as one of something.
        if problem != nil || self.problem != nil { self.problem = problem }
    }

    // MARK: What has waited

    /// The present start of the request.
    var mark: Mark { Mark(number: number) }

    /// Whether the request is under way, and has not begun again since.
    func isCurrent(_ mark: Mark) -> Bool { mark.number == number && !isOver }

    /// The rest of a time that the whole request may take.
    ///
    /// - Returns: nil when nothing is left.
    func rest(of total: TimeSpan, at now: UInt64) -> TimeSpan? {
        let spent = now &- startedAt
        return spent < total.nanoseconds ? TimeSpan(nanoseconds: total.nanoseconds - spent) : nil
    }
}
