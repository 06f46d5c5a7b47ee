// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPSessionCore

@Suite("The partial file of a download")
struct DownloadFileTests {
    private final class Notes: Sendable {
        let all = Monitor<[String]>([])

        func add(_ note: String) { all.with { $0.append(note) } }
        var list: [String] { all.with { $0 } }
    }

    /// A loop for the disk and one for the task, both turned by the test.
    private let files = try! EventLoop()
    private let owner = try! EventLoop()

    private func turn(until isSo: () -> Bool) {
        for _ in 0..<1000 where !isSo() {
            files.run(atMost: .milliseconds(0))
            owner.run(atMost: .milliseconds(0))
        }
    }

    private func part(_ count: Int, in folder: TemporaryFolder) throws -> (name: String, checksum: UInt64) {
        let bytes = patternBytes(count)
        try Data(bytes).write(to: URL(fileURLWithPath: "\(folder.path)/some.part"))
        var checksum = XXH64()
        checksum.update(bytes.span)
        return ("some.part", checksum.value)
    }

    @Test("a large file is compared with its checksum in pieces, between other files")
    func pieces() throws {
        let folder = try TemporaryFolder()
        let (name, checksum) = try part(20_000_000, in: folder)
        let notes = Notes()
        let found = DownloadFile(name: name, folder: folder.path, files: files, owner: owner)
        let other = DownloadFile(folder: folder.path, files: files, owner: owner)
        other.create()
        found.reopen(at: 19_000_000, checksum) { notes.add("reopened \($0)") }
        other.write([1, 2, 3]) { notes.add("written \($0 == nil)") }
        turn { notes.list.count == 2 }
        // All but the first bytes count.
        #expect(notes.list == ["written true", "reopened false"])
        notes.all.with { $0 = [] }
        let again = DownloadFile(name: name, folder: folder.path, files: files, owner: owner)
        again.reopen(at: 20_000_000, checksum) { notes.add("reopened \($0)") }
        other.write([4]) { notes.add("written \($0 == nil)") }
        turn { notes.list.count == 2 }
        #expect(notes.list == ["written true", "reopened true"])
        again.write([9]) { _ in notes.add("appended") }
        turn { notes.list.count == 3 }
        #expect(try FileManager.default.attributesOfItem(atPath: again.path)[.size] as? Int == 20_000_001)
    }

    @Test("a file that is given up during its comparison stays, free for another task")
    func givenUp() throws {
        let folder = try TemporaryFolder()
        let (name, checksum) = try part(20_000_000, in: folder)
        let notes = Notes()
        let first = DownloadFile(name: name, folder: folder.path, files: files, owner: owner)
        let second = DownloadFile(name: name, folder: folder.path, files: files, owner: owner)
        first.reopen(at: 20_000_000, checksum) { notes.add("first \($0)") }
        first.close { notes.add("closed") }
        second.reopen(at: 20_000_000, checksum) { notes.add("second \($0)") }
        turn { notes.list.last == "second true" }
        #expect(notes.list == ["closed", "second true"])
    }
}
