// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("A task log on a full disk", .onOwnThreads)
struct FullLogDiskTests {
    /// Sets the size that a file of the proxy may have: to a program that is what a full disk is.
    private func limitFiles(of proxy: ProxyUnderTest, to size: String) throws {
        let limited = try Programs.run("prlimit", ["--pid", "\(proxy.identifier)", "--fsize=\(size):unlimited"])
        #expect(limited.exitCode == 0, "\(limited.errors)")
    }

    private func lost(_ proxy: ProxyUnderTest) throws -> Int {
        let page = try proxy.exchange("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1).text
        let name = "pinproxy_log_lines_lost_total "
        let line = try #require(page.split(separator: "\n").first { $0.hasPrefix(name) })
        return try #require(Int(line.dropFirst(name.count)))
    }

    @Test("the log has whole lines alone, counts lost ones, and continues")
    func fullDisk() throws {
        let folder = try TemporaryFolder()
        let log = "\(folder.path)/tasks.log"
        let stage = try Stage(
            { settings in
                settings.members["log"] = ["tasks": log]
                settings.members["admin"] = ["address": "127.0.0.1:0"]
            },
            responding: { OriginResponse.text($0.target) }
        )
        let lines = {
            try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false)
        }
        let client = try stage.proxy.connect()
        let ask = { (path: String) in
            try client.send(ProxyUnderTest.request("GET", stage.url(path)))
            #expect(try client.readResponse().text == path)
        }
        try ask("/before")
        try Patience.poll(for: "the first line") { try lines().count == 2 ? true : nil }
        #expect(try lost(stage.proxy) == 0)
        // In the middle of some line.
        try limitFiles(of: stage.proxy, to: "5000")
        for number in 0..<40 { try ask("/full/\(number)") }
        let event = try stage.proxy.waitForEvent("log_lines_lost")
        #expect(event.string("message")?.contains("File too large") == true)
        let lostLines = try Patience.poll(for: "the lines") {
            let lost = try lost(stage.proxy)
            return try lines().count - 1 + lost == 41 ? lost : nil
        }
        #expect(lostLines > 20)
        try limitFiles(of: stage.proxy, to: "unlimited")
        try ask("/after")
        try Patience.poll(for: "the last line") { try lines().dropLast().last?.contains("/after") == true ? true : nil }
        let all = try lines()
        #expect(all.last == "", "it ends with a whole line")
        for line in all.dropLast() { #expect(LogLine(String(line)) != nil, "\(line)") }
        #expect(all.count - 1 == 42 - lostLines)
        // Once, and what came since then at the end.
        client.close()
        #expect(try stage.proxy.terminate().exitCode == 0)
        let told = stage.proxy.events("log_lines_lost").compactMap { $0.integer("count") }
        #expect(told.count <= 2 && told.reduce(0, +) == lostLines, "\(told)")
    }
}
