// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("Command line: demo", .onOwnThreads)
struct CommandLineDemoTests {
    @Test("demo shows a pin that holds and one that fails, in 80 columns")
    func demo() throws {
        let finished = try pinproxy("demo")
        #expect(finished.exitCode == 0, "\(finished.output)")
        #expect(finished.errors.isEmpty)
        let output = finished.output
        #expect(output.contains("HTTP/1.1 200 OK"))
        #expect(output.contains("HTTP/1.1 502 Bad Gateway"))
        #expect(output.contains("Proxy-Status: pinproxy"))
        #expect(output.contains("the origin received 0 bytes of requests"))
        #expect(output.firstMatch(of: /the origin received [1-9]\d* bytes of requests/) != nil)
        #expect(output.contains(#/\n    pass +\d\d:\d\d:\d\d  200 /#))
        #expect(output.contains(#/\n    FAIL +\d\d:\d\d:\d\d  502 /#))
        #expect(output.contains("As it should be"))
        #expect(!output.contains("\u{1b}"))
        for line in output.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
    }

    @Test("demo has colours on a terminal, and none with NO_COLOR")
    func colours() throws {
        let script = try Programs.path(of: "script")
        func onTerminal(_ environment: [String: String]) throws -> Programs.Finished {
            let command = "'\(try Programs.built("pinproxy"))' demo"
            return try Programs.run(
                script,
                ["-qec", command, "/dev/null"],
                environment: Programs.environment.merging(environment.merging(["TERM": "xterm"]) { $1 }) { $1 }
            )
        }
        let coloured = try onTerminal(["NO_COLOR": ""])
        #expect(coloured.exitCode == 0)
        #expect(coloured.output.contains("\u{1b}[32m"))
        let plain = try onTerminal(["NO_COLOR": "1"])
        #expect(!plain.output.contains("\u{1b}"))
    }
}
