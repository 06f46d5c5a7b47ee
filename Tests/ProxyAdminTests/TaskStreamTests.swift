// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Testing

@testable import ProxyAdmin
@testable import ProxyCore

@Suite("The latest tasks, as events and as a list")
struct TaskStreamTests {
    private func append(_ lines: [String], to recent: RecentTasks) {
        let bytes = Array(lines.map { "\($0)\n" }.joined().utf8)
        bytes.withUnsafeBytes { recent.append($0, count: lines.count) }
    }

    private func events(_ stream: inout TaskStream, _ recent: RecentTasks) -> String? {
        var output = ByteBuffer()
        let hasEvents = stream.write(recent, to: &output)
        return hasEvents ? String(copying: output.bytes) : nil
    }

    @Test("a reader gets each line once as an event with its number")
    func stream() {
        let recent = RecentTasks()
        append(["{\"a\":1}"], to: recent)
        var live = TaskStream(from: nil, of: recent.next)
        var whole = TaskStream(from: 0, of: recent.next)
        #expect(events(&live, recent) == nil)
        #expect(events(&whole, recent) == "event: task\nid: 0\ndata: {\"a\":1}\n\n")
        append(["{}", "[]"], to: recent)
        let both = "event: task\nid: 1\ndata: {}\n\nevent: task\nid: 2\ndata: []\n\n"
        #expect(events(&live, recent) == both && events(&whole, recent) == both)
        #expect(events(&live, recent) == nil)
    }

    @Test("a reader that is too slow learns how many it has missed")
    func lost() {
        let recent = RecentTasks(capacity: 4)
        var stream = TaskStream(from: 0, of: 0)
        for number in 0..<10 { append(["\(number)"], to: recent) }
        let first = recent.lines(from: 0, upTo: .max).first
        #expect(first > 0)
        let text = events(&stream, recent)
        #expect(text?.hasPrefix("event: lost\ndata: {\"count\":\(first)}\n\nevent: task\nid: \(first)\n") == true)
        #expect(stream.next == 10)
        recent.forget()
        #expect(events(&stream, recent) == nil, "what was read is not missed")
        append(["x"], to: recent)
        recent.forget()
        #expect(events(&stream, recent) == "event: lost\ndata: {\"count\":1}\n\n")
    }

    @Test("a number from before a restart means the next lines")
    func restarted() {
        #expect(TaskStream(from: 100, of: 3).next == 3)
        #expect(TaskStream(from: 2, of: 3).next == 2)
    }

    @Test("the latest come first in the list, and the bound holds")
    func list() {
        let recent = RecentTasks()
        #expect(String(copying: TaskDocuments.tasks(recent, limit: 5).bytes) == "{\"next\":0,\"tasks\":[]}\n")
        append(["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"], to: recent)
        let text = String(copying: TaskDocuments.tasks(recent, limit: 2).bytes)
        #expect(text == "{\"next\":3,\"tasks\":[\n{\"a\":3},\n{\"a\":2}]}\n")
    }
}
