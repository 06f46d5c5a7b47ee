// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The tasks of a session that are not complete, each with its delegate.
///
/// `@unchecked Sendable`: `lock` guards `tasks`, and the place that each of them keeps. No foreign code is called with it held.
final class TaskTable: @unchecked Sendable {
    private let lock = PosixLock()
    /// Unordered: the last one takes the place of one that leaves.
    private var tasks: [SessionTask] = []

    func insert(_ task: SessionTask) {
        lock.withLock {
            guard task.tableIndex == nil else { return }
            task.tableIndex = tasks.count
            tasks.append(task)
        }
    }

    func remove(_ task: SessionTask) {
        lock.withLock {
            guard let index = task.tableIndex else { return }
            task.tableIndex = nil
            let last = tasks.removeLast()
            guard last !== task else { return }
            tasks[index] = last
            last.tableIndex = index
        }
    }

    var isEmpty: Bool { lock.withLock { tasks.isEmpty } }

    /// All tasks, in the order of their creation.
    var all: [SessionTask] {
        lock.withLock { tasks }.sorted { $0.taskIdentifier < $1.taskIdentifier }
    }
}
