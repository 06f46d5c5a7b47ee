// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPCaching

@Suite("The disk store when the disk fails", .onOwnThreads)
struct DiskStoreFailureTests {
    private typealias Stage = CachingStage

    private static let large = DiskStoreStage.bytes(100_000)

    @Test("a folder that cannot be made turns the store off until it can")
    func unwritableFolder() throws {
        let folder = try TemporaryFolder()
        // A file instead of the parent folder: no user can create a folder there.
        let blocker = try folder.write("x", as: "blocker")
        let stage = try DiskStoreStage(folder, path: blocker + "/cache")
        try stage.insert("http://a.example/", Self.large)
        try stage.settle()
        #expect(try stage.body("http://a.example/") == nil)
        #expect(stage.store.statistics.offBecause != nil)
        #expect(stage.notices.with { $0.first }?.contains("is off: mkdir") == true)
        unlink(blocker)
        try Patience.poll(for: "the store") {
            try stage.insert("http://a.example/", Self.large)
            try stage.settle()
            return try stage.body("http://a.example/")
        }
        #expect(stage.store.statistics.offBecause == nil)
        #expect(stage.notices.with { $0.last }?.contains("is on again") == true)
    }

    @Test("when the folder of bodies is gone, the store turns off")
    func lostFolder() throws {
        let stage = try DiskStoreStage()
        try stage.insert("http://a.example/", Self.large)
        try stage.settle()
        for name in ["partial", "bodies"] {
            try FileManager.default.removeItem(atPath: stage.store.configuration.folder + "/" + name)
        }
        #expect(try stage.body("http://a.example/") == nil)
        try stage.insert("http://a.example/2", Self.large)
        try stage.settle()
        #expect(try stage.body("http://a.example/2") == nil)
        #expect(!stage.notices.with { $0 }.isEmpty)
    }

    @Test(
        "a corrupt index is made anew, with a message, and works",
        arguments: ["no database at all", "", "SQLite format 3\0 and then nonsense"]
    )
    func corruptIndex(text: String) throws {
        let folder = try TemporaryFolder()
        try DiskStoreStage(folder).store.close()
        let filling = text.isEmpty ? "" : text + String(repeating: "x", count: 100_000)
        try folder.write(filling, as: "cache/index.sqlite")
        let stage = try DiskStoreStage(folder)
        try Patience.poll(for: "the store") {
            try stage.insert("http://a.example/", Self.large)
            try stage.settle()
            return try stage.body("http://a.example/")
        }
        #expect(stage.store.statistics.offBecause == nil)
        // An empty file is a new database.
        #expect(stage.notices.with { $0 }.contains { $0.contains("made anew") } == !text.isEmpty)
    }

    @Test("an index whose pages are overwritten gives no wrong response")
    func overwrittenPages() throws {
        let folder = try TemporaryFolder()
        var stage: DiskStoreStage? = try DiskStoreStage(folder)
        let bodies = (0..<60).map { DiskStoreStage.bytes(2000, seed: UInt64($0)) }
        for number in 0..<60 { try stage?.insert("http://a.example/\(number)", bodies[number]) }
        try stage?.settle()
        stage = nil
        let path = folder.path + "/cache/index.sqlite"
        let size = try #require(try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int)
        var generator = SeededGenerator(seed: 3)
        for _ in 0..<10 {
            let handle = try #require(FileHandle(forUpdatingAtPath: path))
            try handle.seek(toOffset: UInt64(Int.random(in: 4096..<size - 600, using: &generator)))
            handle.write(Data(DiskStoreStage.bytes(512, seed: generator.next())))
            try handle.close()
            let again = try DiskStoreStage(folder)
            for number in 0..<60 {
                if let found = try again.body("http://a.example/\(number)") { #expect(found == bodies[number]) }
            }
            again.store.close()
        }
    }

    @Test(
        "an index with impossible totals is made anew",
        arguments: [
            "entries = -1", "entries = 9223372036854775807", "entries = 1152921504606846976", "cost = -1",
            "cost = 9223372036854775807",
        ]
    )
    func impossibleTotals(change: String) throws {
        let folder = try TemporaryFolder()
        var stage: DiskStoreStage? = try DiskStoreStage(folder)
        try stage?.insert("http://a.example/", Self.large)
        try stage?.settle()
        stage = nil
        try DiskStoreStage.changeIndex(in: folder, "UPDATE total SET \(change)")
        let again = try DiskStoreStage(folder)
        try Patience.poll(for: "the store") {
            try again.insert("http://b.example/", Self.large)
            try again.settle()
            return try again.body("http://b.example/")
        }
        #expect(try again.body("http://b.example/") == Self.large)
        #expect(again.store.statistics.entries == 1 && again.store.statistics.offBecause == nil)
        #expect(again.notices.with { $0.first }?.contains("made anew") == true)
    }

    @Test("a body of impossible length is a miss, and its row goes", arguments: ["-1", "9223372036854775807"])
    func impossibleLength(length: String) throws {
        let folder = try TemporaryFolder()
        var stage: DiskStoreStage? = try DiskStoreStage(folder)
        try stage?.insert("http://a.example/", Self.large)
        try stage?.settle()
        stage = nil
        try DiskStoreStage.changeIndex(in: folder, "UPDATE entry SET length = \(length)")
        let again = try DiskStoreStage(folder)
        #expect(try again.entries("http://a.example/").isEmpty)
        #expect(again.store.statistics.entries == 0 && again.store.statistics.offBecause == nil)
    }

    @Test("a folder that another process uses is left alone")
    func sharedFolder() throws {
        let folder = try TemporaryFolder()
        let first = try DiskStoreStage(folder)
        try first.insert("http://a.example/", Self.large)
        try first.settle()
        let second = try DiskStoreStage(folder)
        #expect(try second.body("http://a.example/") == nil)
        #expect(second.store.statistics.offBecause != nil)
        first.store.close()
        try Patience.poll(for: "the second store") { try second.body("http://a.example/") }
    }

    @Test("a lasting trouble is reported once in a while, not each time")
    func quiet() throws {
        let folder = try TemporaryFolder()
        let blocker = try folder.write("x", as: "blocker")
        let stage = try DiskStoreStage(folder, path: blocker + "/cache") { $0.quiet = 3600 }
        for _ in 0..<5 { #expect(try stage.body("http://a.example/") == nil) }
        #expect(stage.notices.with { $0.count } == 1)
    }

    @Test("a full disk stores nothing for a while, and stored responses are still read")
    func readingOnAFullDisk() throws {
        let stage = try DiskStoreStage { $0.pause = 3600 }
        for number in 0..<30 {
            try stage.insert("http://a.example/\(number)", Self.large)
            // Two threads write bodies: only so is the first one the oldest.
            if number == 0 { try stage.settle() }
        }
        try stage.settle()
        stage.store.bodyFailed(IOFailure(code: ENOSPC, during: "write"))
        try stage.settle()
        #expect(stage.store.statistics.offBecause?.contains("write") == true)
        // A tenth was removed: the oldest, which two threads have stored in nearly the order of submission.
        #expect(stage.files().count == 26)
        #expect(try stage.body("http://a.example/29") == Self.large)
        for body in [Self.large, Array(Self.large[..<1000])] {
            try stage.insert("http://a.example/new", body)
            try stage.settle()
            #expect(try stage.body("http://a.example/new") == nil)
        }
        #expect(stage.files("partial").isEmpty)
        // A removal happens meanwhile.
        #expect(try stage.remove(.uri(try Stage.key("http://a.example/28"))) == 1)
        #expect(try stage.body("http://a.example/28") == nil)
    }

    @Test(
        "when a head cannot replace its predecessor, the entry goes",
        arguments: [ENOSPC, EIO]
    )
    func updateWithoutRoom(code: Int32) throws {
        let stage = try DiskStoreStage { $0.pause = 3600 }
        for number in 0..<30 { try stage.insert("http://a.example/\(number)", Self.large) }
        try stage.settle()
        let entry = try #require(try stage.entries("http://a.example/29").first)
        let fresh = entry.response.updated(
            by: try HeaderFields("Cache-Control", "no-cache"),
            to: try Stage.request(),
            requestTime: Stage.now + 10,
            responseTime: Stage.now + 10,
            Stage.shared
        )
        stage.store.bodyFailed(IOFailure(code: code, during: "write"))
        stage.store.update(entry, by: fresh)
        stage.store.tryAgainAtOnce()
        #expect(try stage.entries("http://a.example/29").isEmpty)
        #expect(try stage.body("http://a.example/28") == Self.large)
    }

    @Test("a disk that has room again is stored on again")
    func roomAgain() throws {
        let stage = try DiskStoreStage()
        stage.store.bodyFailed(IOFailure(code: EDQUOT, during: "write"))
        try stage.insert("http://a.example/", Self.large)
        try stage.settle()
        #expect(try stage.body("http://a.example/") == Self.large)
        #expect(stage.store.statistics.offBecause == nil)
        #expect(stage.notices.with { $0.last }?.contains("stores again") == true)
    }

    @Test("a response that is removed while the store is off does not return")
    func removalWhileOff() throws {
        let stage = try DiskStoreStage()
        for name in ["kept", "gone"] { try stage.insert("http://a.example/\(name)", Self.large) }
        try stage.settle()
        stage.store.bodyFailed(IOFailure(code: EIO, during: "write"))
        #expect(try stage.remove(.uri(try Stage.key("http://a.example/gone"))) <= 1)
        #expect(try stage.body("http://a.example/gone") == nil)
        #expect(try stage.body("http://a.example/kept") == Self.large)

        // The store is off for longer: the removal is pending.
        let folder = try TemporaryFolder()
        let paused = try DiskStoreStage(folder) { $0.pause = 3600 }
        for name in ["kept", "gone"] { try paused.insert("http://a.example/\(name)", Self.large) }
        try paused.settle()
        paused.store.bodyFailed(IOFailure(code: EIO, during: "write"))
        _ = try paused.remove(.uri(try Stage.key("http://a.example/gone")))
        paused.store.tryAgainAtOnce()
        #expect(try paused.body("http://a.example/gone") == nil)
        #expect(try paused.body("http://a.example/kept") == Self.large)
    }

    @Test("a full disk pauses storing and ends nothing")
    func fullDisk() throws {
        let folder = try TemporaryFolder()
        // A separate small file system in separate namespaces.
        let script = "mount -t tmpfs -o size=3m none \(folder.path) && exec \"$0\" \"$@\""
        let child = try ChildProcess(
            try Programs.path(of: "unshare"),
            ["--user", "--map-root-user", "--mount", "/bin/sh", "-c", script]
                + [try Programs.built("CacheWriter"), folder.path + "/cache", "5", "64000000"]
        )
        _ = try child.waitForErrors("the store to stop storing") { errors in
            errors.contains("stores nothing: ") ? true : nil
        }
        _ = try child.waitForErrors("the store to store again") { errors in
            errors.contains("stores again") ? true : nil
        }
        #expect(child.exitCode == nil)
    }

    @Test("100,000 entries are found after opening (the time: make bench-cache-start)")
    func opening() throws {
        let folder = try TemporaryFolder()
        try DiskStoreStage(folder).store.close()
        try Self.fill(folder.path + "/cache/index.sqlite", entries: 100_000)
        let stage = try DiskStoreStage(folder, capacity: 20 << 30)
        #expect(try stage.entries("http://a.example/none").isEmpty)
        #expect(stage.store.statistics.entries == 100_000)
        #expect(stage.store.statistics.bytes == 100_000 * 100_600)
    }

    private static func fill(_ path: String, entries: Int) throws {
        let head = HeadCoding.encode(try Stage.stored([]), tags: [], .none)
        let database = try SQLiteDatabase(path: path)
        let statement = try database.prepare(
            "INSERT INTO entry (hash, uri, part, host, head, file, length, checksum, cost, turn)"
                + " VALUES (?, ?, x'', x'61', ?, ?, 100000, 0, 100600, ?)"
        )
        try database.run("BEGIN")
        for number in 0..<entries {
            try statement.bind(
                .integer(Int64(number)),
                .bytes(Array("GET http://a.example:80/\(number)".utf8)),
                .bytes(head),
                .integer(Int64(number)),
                .integer(Int64(number))
            )
            try statement.run()
        }
        try database.run("COMMIT")
    }
}
