// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import IOCore
import TestSupport
import Testing

@Suite("Output files", .onOwnThreads)
struct OutputFileTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func path(_ name: String) -> String { "\(folder.path)/\(name)" }

    private func text(_ name: String) throws -> String { try String(contentsOfFile: path(name), encoding: .utf8) }

    private func mode(_ name: String) -> mode_t {
        var status = stat()
        return lstat(path(name), &status) == 0 ? status.st_mode & 0o777 : 0
    }

    private var names: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() }
    }

    private func write(_ text: String, _ name: String, as contents: OutputFile.Contents = .ordinary) throws {
        try OutputFile(path(name)).write(Array(text.utf8), as: contents)
    }

    @Test("a new file has its contents' mode, and no draft remains")
    func newFile() throws {
        try write("a", "ordinary")
        try write("b", "shared", as: .shared)
        try write("c", "secret", as: .secret)
        let mask = umask(0)
        umask(mask)
        #expect(mode("ordinary") == 0o666 & ~mask)
        #expect(mode("shared") == 0o644 && mode("secret") == 0o600)
        #expect(try names == ["ordinary", "secret", "shared"])
    }

    @Test("a regular file is replaced, keeps its mode, and is never truncated")
    func replacing() throws {
        try folder.write("old", as: "file")
        chmod(path("file"), 0o640)
        let reader = try #require(FileHandle(forReadingAtPath: path("file")))
        try write("new", "file")
        #expect(try text("file") == "new" && mode("file") == 0o640)
        // Who has opened the former file reads it to its end.
        #expect(try reader.readToEnd() == Data("old".utf8))
        chmod(path("file"), 0o644)
        try write("key", "file", as: .secret)
        #expect(mode("file") == 0o600)
    }

    @Test("symbolic links stay, and the file behind them is replaced")
    func links() throws {
        try folder.write("old", as: "a/file")
        try folder.write("", as: "b/other")
        symlink("../a/file", path("b/first"))
        symlink("b/first", path("link"))
        try write("new", "link")
        #expect(try text("a/file") == "new")
        symlink("a/later", path("dangling"))
        #expect(try OutputFile(path("dangling")).target == path("a/later"))
        try write("made", "dangling")
        #expect(try text("a/later") == "made")
        for link in ["link", "dangling", "b/first"] {
            #expect((try? FileManager.default.destinationOfSymbolicLink(atPath: path(link))) != nil)
        }
        symlink("round", path("round"))
        #expect(throws: IOFailure.self) { try write("x", "round") }
        symlink("gone/file", path("nowhere"))
        #expect(throws: IOFailure.self) { try write("x", "nowhere") }
        #expect(throws: IOFailure.self) { try write("x", "a") }
        #expect(throws: IOFailure.self) { try write("x", "a/new/") }
        #expect(try names == ["a", "b", "dangling", "link", "nowhere", "round"])
    }

    @Test("a FIFO is opened and written to, and stays")
    func fifo() throws {
        try #require(mkfifo(path("fifo"), 0o600) == 0)
        let reader = try ChildProcess(try Programs.path(of: "cat"), [path("fifo")])
        try write("through", "fifo")
        #expect(try reader.waitForExit().output == "through")
        var status = stat()
        #expect(lstat(path("fifo"), &status) == 0 && status.st_mode & S_IFMT == S_IFIFO)
        #expect(try names == ["fifo"])
    }

    @Test("a move replaces no FIFO and no folder")
    func moves() throws {
        let source = try folder.write("x", as: "source")
        try #require(mkfifo(path("fifo"), 0o600) == 0)
        #expect(throws: IOFailure(code: EEXIST, during: "rename")) {
            try FileMove.move(source, to: path("fifo"), replacing: true)
        }
        var status = stat()
        #expect(lstat(path("fifo"), &status) == 0 && status.st_mode & S_IFMT == S_IFIFO)
        #expect(throws: IOFailure.self) { try OutputFile(notFollowing: path("fifo")) }
    }

    @Test("a file of the program's own replaces a link without following it")
    func ownFiles() throws {
        try folder.write("kept", as: "other")
        symlink("other", path("own"))
        try OutputFile(notFollowing: path("own")).write(Array("state".utf8), as: .secret)
        #expect(try text("own") == "state" && text("other") == "kept")
        #expect(mode("own") == 0o600)
    }

    @Test("a new file takes no existing name, not even a dangling link's")
    func creating() throws {
        symlink("nothing", path("link"))
        try folder.write("old", as: "file")
        for name in ["link", "file"] {
            #expect(throws: IOFailure(code: EEXIST, during: "open")) {
                try OutputFile.create(path(name), [1], as: .ordinary)
            }
        }
        #expect(try text("file") == "old")
        #expect(try names == ["file", "link"])
        try OutputFile.create(path("new"), Array("x".utf8), as: .shared)
        #expect(mode("new") == 0o644)
    }

    @Test("a link of another user in a shared folder is not followed", .enabled(if: geteuid() == 0))
    func foreignLinks() throws {
        try folder.write("secret", as: "target")
        mkdir(path("public"), 0o777)
        chmod(path("public"), 0o1777)
        symlink("../target", path("public/link"))
        symlink("../none", path("public/dangling"))
        for name in ["link", "dangling"] {
            lchown(path("public/\(name)"), 65_534, 65_534)
            #expect(throws: IOFailure.self) { try write("x", "public/\(name)") }
        }
        #expect(try text("target") == "secret")
    }
}
