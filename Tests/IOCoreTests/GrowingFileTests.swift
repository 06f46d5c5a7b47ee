// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import IOCore

@Suite("Files that grow, and their moves")
struct GrowingFileTests {
    private let folder = try! TemporaryFolder()

    private func contents(_ name: String) throws -> String {
        String(decoding: try Data(contentsOf: URL(fileURLWithPath: "\(folder.path)/\(name)")), as: UTF8.self)
    }

    private func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: "\(folder.path)/\(name)") }

    @Test("a new file is private, grows, is cut, and continues after reopening")
    func growth() throws {
        let path = "\(folder.path)/new"
        var file: GrowingFile? = try GrowingFile(creating: path)
        try file?.append(Array("hello".utf8))
        try file?.truncate(to: 2)
        try file?.append(Array("y".utf8))
        #expect(file?.size == 3)
        file = nil
        var status = stat()
        #expect(lstat(path, &status) == 0 && status.st_mode & 0o777 == 0o600)
        file = try GrowingFile(reopening: path)
        #expect(file?.size == 3)
        try file?.append(Array("!".utf8))
        #expect(try contents("new") == "hey!")
        #expect(throws: IOFailure(code: EEXIST, during: "open")) { try GrowingFile(creating: path) }
    }

    private final class End: Sendable {
        let hasCome = Atomic<Bool>(false)
    }

    @Test("a file that is not reopened closes its own descriptor alone")
    func failedReopening() async throws {
        let path = "\(folder.path)/held"
        let held = try GrowingFile(creating: path)
        let end = End()
        let stolen = await withTaskGroup(of: Int.self) { group in
            // Descriptors that come and go: a number that is closed once too often is soon one of these.
            group.addTask {
                var stolen = 0
                while !end.hasCome.load(ordering: .relaxed) {
                    let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
                    if close(descriptor) != 0 { stolen += 1 }
                }
                return stolen
            }
            var opened = 0
            for _ in 0..<50_000 where (try? GrowingFile(reopening: path)) != nil { opened += 1 }
            #expect(opened == 0)
            end.hasCome.store(true, ordering: .relaxed)
            return await group.reduce(0, +)
        }
        #expect(stolen == 0)
        withExtendedLifetime(held) {}
    }

    @Test("a file that may be another user's is not reopened")
    func reopening() throws {
        let real = try folder.write("x", as: "real")
        symlink(real, "\(folder.path)/link")
        mkdir("\(folder.path)/folder", 0o700)
        try folder.write("x", as: "first")
        link("\(folder.path)/first", "\(folder.path)/second")
        for name in ["link", "folder", "first", "absent"] {
            #expect(throws: IOFailure.self, "\(name)") { try GrowingFile(reopening: "\(folder.path)/\(name)") }
        }
    }

    @Test("a move replaces an existing file only where it may")
    func moves() throws {
        let source = try folder.write("new", as: "source")
        let target = try folder.write("old", as: "target")
        #expect(throws: IOFailure(code: EEXIST, during: "link")) {
            try FileMove.move(source, to: target, replacing: false)
        }
        #expect(try contents("target") == "old" && exists("source"))
        try FileMove.move(source, to: target, replacing: true)
        #expect(try contents("target") == "new" && !exists("source"))
        try FileMove.move(target, to: "\(folder.path)/third", replacing: false)
        #expect(try contents("third") == "new" && !exists("target"))
        #expect(throws: IOFailure(code: ENOENT, during: "rename")) {
            try FileMove.move("\(folder.path)/absent", to: target, replacing: true)
        }
    }

    @Test("a move to another file system is whole or not at all", arguments: [true, false])
    func acrossFileSystems(replacing: Bool) throws {
        // A file system in memory, if there is one; otherwise this is an ordinary move.
        let other = "/dev/shm/pinproxy-\(UInt64.random(in: 0 ... .max))"
        guard mkdir(other, 0o700) == 0 else { return }
        defer { try? FileManager.default.removeItem(atPath: other) }
        let text = String(repeating: "0123456789", count: 250_000)
        let source = try folder.write(text, as: "source")
        try FileMove.move(source, to: "\(other)/target", replacing: replacing)
        #expect(!exists("source"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: other) == ["target"])
        let isWhole = try String(contentsOfFile: "\(other)/target", encoding: .utf8) == text
        #expect(isWhole)
        let again = try folder.write("again", as: "again")
        if replacing {
            try FileMove.move(again, to: "\(other)/target", replacing: true)
            #expect(try String(contentsOfFile: "\(other)/target", encoding: .utf8) == "again")
        } else {
            #expect(throws: IOFailure.self) { try FileMove.move(again, to: "\(other)/target", replacing: false) }
            #expect(exists("again"))
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: other) == ["target"])
    }

    @Test("missing folders are made, and a file in the way is an error")
    func folders() throws {
        try FileMove.makeFolders(above: "\(folder.path)/a/b//c/file")
        #expect(exists("a/b/c") && !exists("a/b/c/file"))
        try folder.write("x", as: "a/file")
        try FileMove.makeFolders(above: "\(folder.path)/a/other")
        #expect(throws: IOFailure.self) { try FileMove.makeFolders(above: "\(folder.path)/a/file/b/c") }
    }
}
