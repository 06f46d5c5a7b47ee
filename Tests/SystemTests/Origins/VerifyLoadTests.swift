// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Small runs of `make verify-load` and `make upgrade-load`.
@Suite("Every byte under load", .onOwnThreads)
struct VerifyLoadTests {
    private static let repository = Repository.folder

    /// Debian's own Python, which has python3-h2.
    private func load(_ program: String, _ arguments: String...) throws -> Programs.Finished {
        try Programs.run(
            "/usr/bin/python3",
            [
                Self.repository.appendingPathComponent("Benchmarks/\(program).py").path,
                "--binary", try Programs.built("pinproxy"), "--width", "24",
            ] + arguments,
            seconds: 120
        )
    }

    @Test(
        "mixed exchanges are right to the byte through reloads and a restart",
        .enabled(if: !Programs.isSanitized)
    )
    func mixed() throws {
        let finished = try load("verify_load", "--requests", "500", "--reloads", "3", "--drains", "1")
        #expect(finished.exitCode == 0, "\(finished.output.suffix(3000)) \(finished.errors.suffix(1000))")
        #expect(finished.output.hasPrefix("500 exchanges"))
    }

    @Test("upgrades with passed sockets lose no exchange", .enabled(if: !Programs.isSanitized))
    func upgrades() throws {
        let finished = try load("upgrade_load", "--upgrades", "3", "--between", "60")
        #expect(finished.exitCode == 0, "\(finished.output.suffix(3000)) \(finished.errors.suffix(1000))")
        #expect(finished.output.contains("upgrades beside the predecessor: 2"))
    }

    @Test("a response with one wrong byte is found", .enabled(if: !Programs.isSanitized))
    func spoiled() throws {
        let finished = try load("verify_load", "--requests", "20", "--reloads", "0", "--drains", "0", "--spoil", "13")
        #expect(finished.exitCode == 1)
        #expect(finished.output.contains("WRONG 13 "), "\(finished.output) \(finished.errors)")
    }
}
