// SPDX-License-Identifier: Apache-2.0
import IOCore
package import ProxyConfiguration

/// The state of the whole proxy: its policy, whether it drains, and the results of its reloads.
///
/// `@unchecked Sendable`: `values` is touched behind `lock` alone. Workers do not use it.
package final class ServerStatus: @unchecked Sendable {
    package struct Values: Sendable {
        package var snapshot: PolicySnapshot
        /// The proxy is stopping, and takes no new clients.
        package var isDraining = false
        package var reloads = ReloadAccount()
        /// Nil where nothing watches the files.
        package var files: PolicyFiles?
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

/// The reason why a reload changed nothing. The names appear in the metrics.
package enum ReloadFailure: String, CaseIterable, Sendable {
    /// The configuration, or a file that it names, has an error.
    case configuration
    /// Changed files would drop pins, which only SIGHUP allows.
    case pins
    /// The task log cannot be opened.
    case log
    /// A system call has failed.
    case system
}

/// The results of reloads since the start.
package struct ReloadAccount: Sendable {
    /// The number of reloads that took effect.
    package var applied = 0
    /// The numbers of failed reloads, in the order of `ReloadFailure`.
    package var failures = Array(repeating: 0, count: ReloadFailure.allCases.count)
    package var hasLastFailed = false
    /// The time when the current policy was loaded, in seconds since 1970.
    package var lastLoad: Int64 = 0
    /// The number of hosts that were protected more before a reload than after.
    package var droppedPins = 0
    /// The parts of the last configuration that need a restart.
    package var restartNeeds: [RestartNeed] = []
    /// The last loads of the files, the latest last.
    package private(set) var history: [ReloadRecord] = []

    private static let longestHistory = 20

    mutating func note(_ record: ReloadRecord) {
        if history.count >= Self.longestHistory { history.removeFirst() }
        history.append(record)
    }

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
