/// Holds a script back until the test lets it go on.
package final class Gate: Sendable {
    private let isOpen = Monitor(false)

    package init() {}

    package func open() { isOpen.with { $0 = true } }

    /// - Throws: `TimedOut` when the test never opens it.
    package func pass() throws {
        try isOpen.wait(for: "a gate") { $0 ? true : nil }
    }
}
