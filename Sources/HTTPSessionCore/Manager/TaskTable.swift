// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The tasks of a session that are not complete, each with its delegate.
///
/// `@unchecked Sendable`: `lock` guards `tasks`. No foreign code is called with it held.
final class TaskTable: @unchecked Sendable {
    private let lock = PosixLock()
    private var tasks: [UInt64: SessionTask] = [:]

    func insert(_ task: SessionTask) {
        lock.withLock { tasks[task.taskIdentifier] = task }
    }

    func remove(_ task: SessionTask) {
        lock.withLock { tasks[task.taskIdentifier] = nil }
    }

    var isEmpty: Bool { lock.withLock { tasks.isEmpty } }

    /// All tasks, in the order of their creation.
    var all: [SessionTask] {
        lock.withLock { tasks.values.sorted { $0.taskIdentifier < $1.taskIdentifier } }
    }
}
