import Glibc

/// A line of the standard error that says how far a long work is, on a terminal and nowhere else.
struct ProgressLine {
    var total: Int
    private let isOn: Bool

    /// - Parameter minimum: with less to do there is no line.
    init(total: Int, minimum: Int) {
        self.total = total
        let isDumb = getenv("TERM").map { String(cString: $0) == "dumb" } ?? true
        isOn = total >= minimum && isatty(STDERR_FILENO) == 1 && !isDumb
    }

    func show(_ done: Int) {
        if isOn { Output.error("\r\u{1b}[K\(done) of \(total)") }
    }

    /// Takes the line away.
    func clear() {
        if isOn { Output.error("\r\u{1b}[K") }
    }
}
