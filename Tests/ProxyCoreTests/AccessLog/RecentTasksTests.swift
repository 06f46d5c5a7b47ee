// SPDX-License-Identifier: Apache-2.0
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
}
