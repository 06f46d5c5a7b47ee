import IOCore

/// What is known of the proxy as a whole, for whoever asks: its policy, whether it drains, what came of its reloads.
///
/// `@unchecked Sendable`: `values` is touched behind `lock` alone. No worker's loop comes here.
final class ServerStatus: @unchecked Sendable {
    struct Values: Sendable {
        var snapshot: PolicySnapshot
        /// The end has begun: it takes nothing new.
        var isDraining = false
        var reloads = ReloadAccount()
    }

    private let lock = PosixLock()
    private var values: Values

    init(_ snapshot: PolicySnapshot, loadedAt time: Int64) {
        values = Values(snapshot: snapshot)
        values.reloads.lastLoad = time
    }

    var current: Values { lock.withLock { values } }

    func change(_ body: (inout Values) -> Void) { lock.withLock { body(&values) } }
}

/// Why a reload changed nothing. The names stand in the metrics.
package enum ReloadFailure: String, CaseIterable, Sendable {
    /// The configuration, or a file that it names, has an error.
    case configuration
    /// Changed files would drop pins, and nobody has asked for it with SIGHUP.
    case pins
    /// The task log cannot be opened.
    case log
    /// The system has refused something.
    case system
}

/// What came of the reloads since the start.
struct ReloadAccount: Equatable, Sendable {
    /// Those that took effect.
    var applied = 0
    /// By the order of `ReloadFailure`.
    var failures = Array(repeating: 0, count: ReloadFailure.allCases.count)
    var hasLastFailed = false
    /// When the present policy was loaded, in seconds since 1970.
    var lastLoad: Int64 = 0
    /// Hosts that were protected more before a reload than after.
    var droppedPins = 0
    /// What of the last configuration waits for a restart.
    var restartNeeds: [RestartNeed] = []

    mutating func noteReload(at time: Int64, needs: [RestartNeed]) {
        applied += 1
        hasLastFailed = false
        lastLoad = time
        restartNeeds = needs
    }

    mutating func note(_ failure: ReloadFailure) {
        hasLastFailed = true
        if let index = ReloadFailure.allCases.firstIndex(of: failure) { failures[index] += 1 }
    }
}
