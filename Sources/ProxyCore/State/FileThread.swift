// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The thread that waits for the disk instead of the workers: for replay buffers, and for responses that become files.
/// It starts with its first work.
///
/// `@unchecked Sendable`: only work on this thread uses `folders`.
final class FileThread: @unchecked Sendable {
    /// Used by work on this thread alone.
    let folders = DownloadFolders()
    private let thread = WorkThread(name: "files")

    /// Runs work on this thread, in the order of the calls.
    ///
    /// - Returns: false when there is no thread and none can be started; the work is dropped then.
    @discardableResult
    func submit(_ work: @escaping @Sendable () -> Void) -> Bool { thread.submit(work) }

    /// Waits for the work that is being done, and drops the rest.
    func stop() { thread.stop() }
}
