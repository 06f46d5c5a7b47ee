// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPSessionCore
import IOCore

/// The progress of a transfer as a line of the standard error, on a terminal only.
///
/// `@unchecked Sendable`: everything that changes is behind `lock`.
final class FetchProgress: @unchecked Sendable {
    private let isOn: Bool
    private let lock = PosixLock()
    private var meter = TransferMeter()
    private var lastShown = -1.0
    private var isShown = false

    /// - Parameter isUpload: whether the standard output may be a terminal too; a line in the middle of a body would
    ///   spoil both.
    init(isUpload: Bool) {
        let isDumb = getenv("TERM").map { String(cString: $0) == "dumb" } ?? true
        isOn = isatty(STDERR_FILENO) == 1 && !isDumb && !(isUpload && isatty(STDOUT_FILENO) == 1)
    }

    func show(_ progress: TaskProgress) {
        guard isOn else { return }
        let time = Double(Clock.monotonic) / 1e9
        let line: String? = lock.withLock {
            meter.add(progress.completedBytes, at: time)
            guard time - lastShown >= 0.1 || progress.completedBytes == progress.totalBytes else { return nil }
            lastShown = time
            isShown = true
            return meter.line(progress)
        }
        if let line { Output.error("\r\u{1b}[K\(line)") }
    }

    /// Removes the line.
    func clear() {
        let wasShown = lock.withLock {
            defer { isShown = false }
            return isShown
        }
        if wasShown { Output.error("\r\u{1b}[K") }
    }
}
