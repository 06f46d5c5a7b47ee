// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("The libraries of the program", .onOwnThreads)
struct LinkedLibrariesTests {
    @Test("the program is linked with nothing of Foundation")
    func noFoundation() throws {
        let libraries = try Programs.run("ldd", [try Programs.built("pinproxy")]).output
        #expect(libraries.contains("libssl") && !libraries.contains("Foundation"), "\(libraries)")
    }
}
