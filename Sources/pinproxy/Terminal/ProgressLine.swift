// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The progress of a long task as a line of the standard error, on a terminal only.
struct ProgressLine {
    var total: Int
    private let isOn: Bool

    /// - Parameter minimum: a smaller total has no line.
    init(total: Int, minimum: Int) {
        self.total = total
        let isDumb = getenv("TERM").map { String(cString: $0) == "dumb" } ?? true
        isOn = total >= minimum && isatty(STDERR_FILENO) == 1 && !isDumb
    }

    func show(_ done: Int) {
        if isOn { Output.error("\r\u{1b}[K\(done) of \(total)") }
    }

    /// Removes the line.
    func clear() {
        if isOn { Output.error("\r\u{1b}[K") }
    }
}
