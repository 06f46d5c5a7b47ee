// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Results of name lookups, for as long as they hold. A value; times are nanoseconds of a monotonic clock.
struct NameCache {
    private struct Entry {
        let answer: NameAnswer
        let end: UInt64
    }

    /// The largest number of names.
    static let capacity = 1024
    /// Seconds; the time to live of a result is brought between them.
    static let lifetimes: ClosedRange<UInt64> = 1...300
    /// Seconds for which a failure is kept.
    static let failureLifetime: UInt64 = 1

    private var entries: [String: Entry] = [:]

    var count: Int { entries.count }

    /// - Returns: nil when nothing is known of the name any more.
    func answer(for name: String, at now: UInt64) -> NameAnswer? {
        guard let entry = entries[name], now < entry.end else { return nil }
        return entry.answer
    }

    /// - Parameter lifetime: in seconds; of a failure it does not count.
    mutating func keep(_ answer: NameAnswer, for name: String, lifetime: UInt64, at now: UInt64) {
        var seconds = min(max(lifetime, Self.lifetimes.lowerBound), Self.lifetimes.upperBound)
        if case .failure = answer { seconds = Self.failureLifetime }
        if entries.count >= Self.capacity, entries[name] == nil { makeRoom(at: now) }
        entries[name] = Entry(answer: answer, end: now &+ TimeSpan.seconds(Int(seconds)).nanoseconds)
    }

    /// Removes what holds no more, or else the entry that ends first.
    private mutating func makeRoom(at now: UInt64) {
        entries = entries.filter { now < $0.value.end }
        guard entries.count >= Self.capacity, let first = entries.min(by: { $0.value.end < $1.value.end })
        else { return }
        entries[first.key] = nil
    }
}
