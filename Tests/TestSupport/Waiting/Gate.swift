/// Blocks a script until the test opens the gate.
package final class Gate: Sendable {
    private let isOpen = Monitor(false)

    package init() {}

    package func open() { isOpen.with { $0 = true } }

    /// - Throws: `TimedOut` when the test never opens it.
    package func pass() throws {
        try isOpen.wait(for: "a gate") { $0 ? true : nil }
    }
}
