// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import StrictJSON
import Testing

@testable import ProxyCore

@Suite("The latest tasks, for the admin listener")
struct RecentTasksTests {
    private func append(_ lines: [String], to recent: RecentTasks) {
        let bytes = Array(lines.map { "\($0)\n" }.joined().utf8)
        bytes.withUnsafeBytes { recent.append($0, count: lines.count) }
    }

    private func texts(_ excerpt: RecentTasks.Excerpt) -> [String] {
        excerpt.lines.map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("lines keep their numbers, from whichever one is asked")
    func numbers() {
        let recent = RecentTasks()
        #expect(recent.next == 0 && recent.lines(from: 0, upTo: .max) == RecentTasks.Excerpt())
        append(["a", "b"], to: recent)
        append(["c"], to: recent)
        #expect(recent.next == 3)
        for first in 0...3 {
            let excerpt = recent.lines(from: first, upTo: .max)
            #expect(excerpt.first == first && excerpt.next == 3)
            #expect(texts(excerpt) == Array(["a", "b", "c"][first...]))
        }
        #expect(recent.lines(from: 9, upTo: .max) == RecentTasks.Excerpt(first: 3))
    }

    @Test("the memory is bounded, and the oldest lines are forgotten with their numbers")
    func bound() {
        let recent = RecentTasks(capacity: 10)
        for number in 0..<1000 {
            append(["<\(number)>"], to: recent)
            let excerpt = recent.lines(from: 0, upTo: .max)
            #expect(excerpt.next == number + 1)
            #expect(texts(excerpt) == (excerpt.first..<excerpt.next).map { "<\($0)>" })
            #expect(excerpt.lines.reduce(0) { $0 + $1.count + 1 } <= 20)
        }
        // What comes at once stays together, however long it is.
        append([String(repeating: "x", count: 100), "y"], to: recent)
        #expect(texts(recent.lines(from: 1000, upTo: .max)).last == "y")
    }

    @Test("an excerpt ends with the line that passes the bound")
    func portion() {
        let recent = RecentTasks()
        append(["aaaa", "bbbb", "cccc"], to: recent)
        #expect(texts(recent.lines(from: 0, upTo: 1)) == ["aaaa"])
        #expect(texts(recent.lines(from: 0, upTo: 5)) == ["aaaa", "bbbb"])
        #expect(texts(recent.lines(from: 1, upTo: 4)) == ["bbbb"])
    }

    @Test("forgotten lines are gone, and their numbers are not given again")
    func forget() {
        let recent = RecentTasks()
        append(["secret", "b"], to: recent)
        recent.forget()
        #expect(recent.next == 2 && recent.lines(from: 0, upTo: .max) == RecentTasks.Excerpt(first: 2))
        append(["c"], to: recent)
        #expect(recent.lines(from: 0, upTo: .max).first == 2 && texts(recent.lines(from: 0, upTo: .max)) == ["c"])
    }

    @Test("the first request for them is noticed once")
    func wanted() {
        let recent = RecentTasks()
        #expect(!recent.isWanted)
        #expect(recent.want() && recent.isWanted && !recent.want())
    }

    // MARK: Events

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

    // MARK: Documents

    @Test("the latest come first in the list, and the bound holds")
    func list() {
        let recent = RecentTasks()
        #expect(String(copying: TaskDocuments.tasks(recent, limit: 5).bytes) == "{\"next\":0,\"tasks\":[]}\n")
        append(["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"], to: recent)
        let text = String(copying: TaskDocuments.tasks(recent, limit: 2).bytes)
        #expect(text == "{\"next\":3,\"tasks\":[\n{\"a\":3},\n{\"a\":2}]}\n")
    }
}
