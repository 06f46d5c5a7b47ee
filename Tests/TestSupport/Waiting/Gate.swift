// SPDX-License-Identifier: Apache-2.0
/// Blocks a script until the test opens the gate.
package final class Gate: Sendable {
    private let isOpen = Monitor(false)

    package init() {}

    package func open() { isOpen.with { $0 = true } }

    /// - Throws: `TimedOut` when the test never opens it.
    package func pass() throws {
        try isOpen.wait(for: "a gate") { $0 ? true : nil }
    }

    /// Blocks as long as the gate is closed, for what a busy machine must not let go early. The test opens it in any case.
    package func hold() {
        while (try? pass()) == nil {}
    }
}
