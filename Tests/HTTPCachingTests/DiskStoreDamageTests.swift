// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPCaching

/// What a disk, a backup or an administrator can leave in the folder of a store.
@Suite("The disk store when its folder is damaged", .onOwnThreads)
struct DiskStoreDamageTests {
    private typealias Stage = CachingStage

    private static let large = DiskStoreStage.bytes(100_000)
    private static let other = DiskStoreStage.bytes(100_000, seed: 2)

    /// Stores and finds a new response, whatever was there: the next request works.
    private static func proveWorking(_ stage: DiskStoreStage, _ url: String = "http://next.example/") throws {
        try Patience.poll(for: "the store") {
            try stage.insert(url, large)
            try stage.settle()
            return try stage.body(url)
        }
        #expect(try stage.body(url) == large)
        #expect(stage.store.statistics.offBecause == nil)
    }

    // MARK: - Bodies

    @Test(
        "something other than a file in a body's place is a miss at once",
        arguments: ["FIFO", "link", "link to a FIFO", "device", "socket"]
    )
    func noFile(kind: String) throws {
        let stage = try DiskStoreStage()
        try stage.insert("http://a.example/", Self.large)
        try stage.settle()
        let file = try #require(stage.files().first)
        unlink(file)
        let target = stage.folder.path + "/target"
        switch kind {
        case "FIFO": #expect(mkfifo(file, 0o600) == 0)
        case "link":
            try Data(Self.large).write(to: URL(fileURLWithPath: target))
            symlink(target, file)
        case "device":
            // Only root can make one.
            guard mknod(file, S_IFCHR | 0o600, 1 << 8 | 5) == 0 else { return }
        case "socket":
            #expect(mknod(file, S_IFSOCK | 0o600, 0) == 0)
        default:
            #expect(mkfifo(target, 0o600) == 0)
            symlink(target, file)
        }
        #expect(try stage.body("http://a.example/") == nil)
        #expect(try stage.entries("http://a.example/").isEmpty)
        try Self.proveWorking(stage)
        #expect(stage.notices.with { $0 } == [])
    }

    @Test("a row with another row's body is a miss, even with a valid checksum")
    func namesOfOthers() throws {
        let folder = try TemporaryFolder()
        var stage: DiskStoreStage? = try DiskStoreStage(folder)
        try stage?.insert("http://a.example/", Self.large)
        try stage?.insert("http://b.example/", Self.other)
        try stage?.settle()
        stage = nil
        try DiskStoreStage.changeIndex(
            in: folder,
            "DROP INDEX entry_file; UPDATE entry SET file = (SELECT min(file) FROM entry)"
        )
        let again = try DiskStoreStage(folder)
        var found: [[UInt8]?] = []
        for _ in 0..<2 { found += [try again.body("http://a.example/"), try again.body("http://b.example/")] }
        #expect(!found.contains { $0 == Self.other } || !found.contains { $0 == Self.large })
        for (index, body) in found.enumerated() where body != nil {
            #expect(body == (index % 2 == 0 ? Self.large : Self.other))
        }
        try Self.proveWorking(again)
    }

    @Test("a body that is cut while it is read ends as a failure")
    func cutWhileRead() throws {
        let stage = try DiskStoreStage()
        try stage.insert("http://a.example/", Self.large)
        try stage.settle()
        let body = try stage.open("http://a.example/")
        #expect(body.read(at: 0, count: 10) == Array(Self.large[..<10]))
        truncate(try #require(stage.files().first), 50_000)
        #expect(body.read(at: 49_990, count: 20) == nil)
        #expect(body.read(at: 60_000, count: 20) == nil)
        #expect(try stage.body("http://a.example/") == nil)
    }

    // MARK: - The index

    @Test(
        "a row that was damaged is a miss, never another client's response",
        arguments: ["part", "uri", "hash", "host", "file", "length", "checksum", "head"]
    )
    func damagedKey(column: String) throws {
        let folder = try TemporaryFolder()
        // One bit away from each other.
        let keys = try ["a", "c"].map {
            try #require(CacheKey(url: "http://a.example/\($0)", partition: Array("user-\($0)".utf8)))
        }
        do {
            let stage = try DiskStoreStage(folder)
            try stage.insert(keys[0], Self.large)
            try stage.settle()
        }
        let value =
            switch column {
            case "part": "CAST('user-c' AS BLOB)"
            case "uri": "CAST('GET http://a.example:80/c' AS BLOB)"
            case "host": "CAST('c.example' AS BLOB)"
            case "head": "zeroblob(length(head))"
            default: "\(column) + 1"
            }
        try DiskStoreStage.changeIndex(in: folder, "UPDATE entry SET \(column) = \(value)")
        let again = try DiskStoreStage(folder)
        let mixed = try #require(CacheKey(url: "http://a.example/a", partition: Array("user-c".utf8)))
        for key in keys + [mixed] {
            for entry in try again.entries(key) {
                #expect(key == keys[0] && column != "part" && column != "uri")
                #expect(try again.body(of: entry) == (column == "host" ? Self.large : nil))
            }
        }
        try Self.proveWorking(again)
    }

    @Test(
        "an index of another shape is made anew, with a message",
        arguments: [
            "DROP TABLE entry", "DROP TABLE small", "DROP TABLE total", "DROP TABLE tag", "DROP TABLE setting",
            "DELETE FROM total", "DELETE FROM setting", "ALTER TABLE entry DROP COLUMN length",
            "ALTER TABLE entry RENAME COLUMN cost TO price", "DROP TABLE entry; CREATE VIEW entry AS SELECT 1 AS id",
            "PRAGMA user_version = 7", "PRAGMA user_version = -1", "PRAGMA user_version = 0",
            "DROP TABLE total; CREATE TABLE total (entries TEXT, cost TEXT, turn TEXT); INSERT INTO total VALUES (x'00', NULL, 'x')",
            "CREATE TRIGGER odd BEFORE INSERT ON entry BEGIN SELECT RAISE(ABORT, 'odd'); END",
            "CREATE TRIGGER odd AFTER INSERT ON entry BEGIN INSERT INTO nowhere VALUES (1); END",
        ]
    )
    func otherShape(change: String) throws {
        let folder = try TemporaryFolder()
        do {
            let stage = try DiskStoreStage(folder)
            try stage.insert("http://a.example/", Self.large)
            try stage.settle()
        }
        try DiskStoreStage.changeIndex(in: folder, change)
        let again = try DiskStoreStage(folder)
        if let body = try again.body("http://a.example/") { #expect(body == Self.large) }
        try Self.proveWorking(again)
        if !change.contains("x'00'") {
            #expect(again.notices.with { $0 }.contains { $0.contains("made anew") })
        }
    }

    @Test("flipped bits or cuts in the index give no wrong byte and no crash")
    func flippedBits() throws {
        let folder = try TemporaryFolder()
        let bodies = (0..<20).map { DiskStoreStage.bytes($0 < 15 ? 2000 : 40_000, seed: UInt64($0)) }
        do {
            let stage = try DiskStoreStage(folder)
            for number in 0..<20 { try stage.insert("http://a.example/\(number)", bodies[number], tags: ["t"]) }
            try stage.settle()
        }
        let path = folder.path + "/cache/index.sqlite"
        let intact = try Data(contentsOf: URL(fileURLWithPath: path))
        var generator = SeededGenerator(seed: 34)
        for round in 0..<60 {
            var damaged = intact
            if round % 4 == 3 {
                damaged = damaged.prefix(Int.random(in: 1..<intact.count, using: &generator))
            } else {
                // Every third time in the header and the schema, which decide what the rest is.
                let end = round % 3 == 0 ? 4096 : intact.count
                for _ in 0..<(1 << Int.random(in: 0...8, using: &generator)) {
                    damaged[Int.random(in: 0..<end, using: &generator)] ^=
                        1 << UInt8.random(in: 0...7, using: &generator)
                }
            }
            for name in ["index.sqlite-wal", "index.sqlite-shm", "index.sqlite-journal"] {
                unlink(folder.path + "/cache/" + name)
            }
            try damaged.write(to: URL(fileURLWithPath: path))
            let stage = try DiskStoreStage(folder)
            for number in 0..<20 {
                if let found = try stage.body("http://a.example/\(number)") {
                    #expect(found == bodies[number], "round \(round)")
                }
            }
            _ = try stage.remove(.tag("t"))
            _ = try stage.list()
            try Self.proveWorking(stage)
        }
    }

    @Test(
        "a folder or device in place of an index file is reported, not used",
        arguments: ["index.sqlite", "index.sqlite-wal", "index.sqlite-journal", "index.sqlite-shm"],
        ["FIFO", "link", "folder"]
    )
    func noIndexFile(name: String, kind: String) throws {
        let folder = try TemporaryFolder()
        let victim = try folder.write("precious", as: "victim")
        try DiskStoreStage(folder).store.close()
        let path = folder.path + "/cache/" + name
        unlink(path)
        switch kind {
        case "FIFO": #expect(mkfifo(path, 0o600) == 0)
        case "link": symlink(victim, path)
        default: mkdir(path, 0o700)
        }
        let stage = try DiskStoreStage(folder)
        #expect(try stage.body("http://a.example/") == nil)
        #expect(stage.notices.with { $0.first }?.contains("the index, or a file beside it, is none") == true)
        #expect(try String(contentsOfFile: victim, encoding: .utf8) == "precious")
        try FileManager.default.removeItem(atPath: path)
        try Self.proveWorking(stage)
    }

    // MARK: - The folder

    @Test("a folder with foreign names is used, and these are left alone")
    func oddNames() throws {
        let folder = try TemporaryFolder()
        do {
            let stage = try DiskStoreStage(folder)
            try stage.insert("http://a.example/", Self.large)
            try stage.settle()
        }
        let root = folder.path + "/cache"
        for name in ["\u{202E}", String(repeating: "n", count: 255), "+1", "-1", "00", "ffffffffffffffffffff", "A"] {
            for place in ["", "/bodies", "/bodies/00"] {
                mkdir(root + place, 0o700)
                close(open("\(root)\(place)/\(name)", O_CREAT | O_WRONLY, 0o600))
            }
        }
        mkdir(root + "/partial/folder", 0o700)
        var name = Array((root + "/partial/").utf8CString.dropLast()) + [CChar(bitPattern: 0xFF), 0]
        close(open(&name, O_CREAT | O_WRONLY, 0o600))
        name = Array((root + "/bodies/00/").utf8CString.dropLast()) + [CChar(bitPattern: 0xFF), 0]
        close(open(&name, O_CREAT | O_WRONLY, 0o600))
        let again = try DiskStoreStage(folder)
        #expect(try again.body("http://a.example/") == Self.large)
        try Self.proveWorking(again)
        #expect(again.notices.with { $0 } == [])
        #expect(access("\(root)/+1", F_OK) == 0 && access("\(root)/bodies/A", F_OK) == 0)
    }

    @Test(
        "a folder that is replaced under the store is used with a new lock",
        arguments: ["removed", "replaced", "renamed"]
    )
    func replacedFolder(how: String) throws {
        let stage = try DiskStoreStage()
        try stage.insert("http://a.example/", Self.large)
        try stage.settle()
        let root = stage.store.configuration.folder
        if how == "renamed" {
            #expect(rename(root, root + "-before") == 0)
        } else {
            try FileManager.default.removeItem(atPath: root)
        }
        if how == "replaced" { mkdir(root, 0o700) }
        // What is not in the folder is not found.
        #expect(try stage.body("http://a.example/") == nil)
        #expect(stage.notices.with { $0.first }?.contains("was removed or replaced") == true)
        try Self.proveWorking(stage)
        // Another store is kept out.
        let second = try DiskStoreStage(stage.folder)
        #expect(try second.body("http://next.example/") == nil)
        #expect(second.store.statistics.offBecause?.contains("flock") == true)
        #expect(try stage.body("http://next.example/") == Self.large)
    }

    @Test("lookups do not wait until thousands of bodies without an entry are removed")
    func manyOrphans() throws {
        let folder = try TemporaryFolder()
        try DiskStoreStage(folder).store.close()
        let orphans = folder.path + "/cache/bodies/00"
        mkdir(orphans, 0o700)
        for number in 0..<2000 {
            let name = String(number, radix: 16)
            close(
                open("\(orphans)/" + String(repeating: "0", count: 16 - name.count) + name, O_CREAT | O_WRONLY, 0o600)
            )
        }
        // Somebody has the folder first, so that a lookup opens it.
        let holder = open(folder.path + "/cache/lock", O_RDWR | O_CLOEXEC)
        #expect(flock(holder, LOCK_EX | LOCK_NB) == 0)
        let stage = try DiskStoreStage(folder)
        #expect(try stage.body("http://a.example/") == nil && stage.store.statistics.offBecause != nil)
        close(holder)
        let (store, key, left) = (stage.store, try Stage.key("http://a.example/"), Monitor<[Int]>([]))
        @Sendable func count() {
            let names = try? FileManager.default.contentsOfDirectory(atPath: orphans)
            left.with { $0.append(names?.count ?? -1) }
        }
        // On the thread of the index: the opening does a piece of the sweep, the second lookup comes behind another.
        store.entries(for: key, deliver: { $0() }) { _ in
            count()
            store.entries(for: key, deliver: { $0() }) { _ in count() }
        }
        let counts = try left.wait(for: "the lookups") { $0.count == 2 ? $0 : nil }
        #expect(counts == [1500, 1000])
        try Patience.poll(for: "the sweep") { stage.files().isEmpty ? true : nil }
        try Self.proveWorking(stage)
    }

    @Test("a store whose folder was replaced leaves it to the store that has it")
    func takenFolder() throws {
        let stage = try DiskStoreStage()
        try stage.insert("http://a.example/", Self.large)
        try stage.settle()
        try FileManager.default.removeItem(atPath: stage.store.configuration.folder)
        let second = try DiskStoreStage(stage.folder)
        try Self.proveWorking(second)
        // Its own files are gone; those that it sees now are the other's.
        #expect(try stage.body("http://a.example/") == nil)
        stage.store.bodyFailed(IOFailure(code: EIO, during: "write"))
        for number in 0..<3 {
            try stage.insert("http://b.example/\(number)", Self.large)
            try stage.settle()
        }
        #expect(stage.store.statistics.offBecause?.contains("flock") == true)
        #expect(try stage.remove(.everything) == 0)
        #expect(try second.body("http://next.example/") == Self.large)
        #expect(second.notices.with { $0 } == [])
        second.store.close()
        try Self.proveWorking(stage)
    }
}
