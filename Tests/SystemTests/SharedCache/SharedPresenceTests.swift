// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("The shared cache: programs", .enabled(if: RealPeers.areRequired))
struct SharedPresenceTests {
    @Test("Redis is there", arguments: [Programs.redis])
    func present(program: String) throws { _ = try Programs.path(of: program) }
}
