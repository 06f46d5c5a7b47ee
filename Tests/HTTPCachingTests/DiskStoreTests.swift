// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPCaching

@Suite("The disk store", .onOwnThreads)
struct DiskStoreTests {
    private typealias Stage = CachingStage

    private static let large = DiskStoreStage.bytes(200_000)
    private static let small = DiskStoreStage.bytes(3000, seed: 2)

    @Test("small and large bodies are found as stored, and again after a restart")
    func restart() throws {
        let folder = try TemporaryFolder()
        for round in 0..<3 {
            let stage = try DiskStoreStage(folder)
            if round == 0 {
                try stage.insert("http://a.example/large", Self.large, [("X-A", "1")], tags: ["t"])
                try stage.insert("http://a.example/small", Self.small)
                try stage.insert("http://a.example/empty", [])
                try stage.settle()
            }
            #expect(try stage.body("http://a.example/large") == Self.large)
            #expect(try stage.body("http://a.example/small") == Self.small)
            #expect(try stage.body("http://a.example/empty") == [])
            #expect(try stage.body("http://a.example/other") == nil)
            let entry = try #require(try stage.entries("http://a.example/large").first)
            #expect(entry.response.fields.value(for: "X-A") == "1")
            #expect(entry.response.matches(try Stage.request(), under: Stage.digest, Stage.shared))
            #expect(entry.response.freshness(now: Stage.now + 5).age == 5)
            #expect(stage.store.statistics.entries == 3)
            stage.store.close()
            #expect(stage.notices.with { $0 } == [])
        }
    }

    @Test("readers of a body share its descriptor; a changed file is opened anew")
    func sharedDescriptor() throws {
        let stage = try DiskStoreStage()
        let url = "http://a.example/large"
        try stage.insert(url, Self.large)
        try stage.settle()
        weak var closed: StoredBody?
        do {
            let first = try stage.open(url)
            closed = first
            #expect(try stage.open(url) === first && stage.body(url) == Self.large)
            // Another file of the same name, as a backup that is put back.
            let file = try #require(stage.files().first)
            try FileManager.default.copyItem(atPath: file, toPath: file + "2")
            #expect(rename(file + "2", file) == 0)
            let second = try stage.open(url)
            #expect(second !== first && second.read(at: 0, count: Self.large.count) == Self.large)
            #expect(try stage.open(url) === second)
        }
        #expect(closed == nil)
    }

    @Test("bodies above their share of descriptors are misses and stay stored")
    func shareOfDescriptors() async {
        // The share is the whole process's.
        await #expect(processExitsWith: .success) {
            let stage = try DiskStoreStage()
            for name in ["a", "b"] { try stage.insert("http://a.example/\(name)", DiskStoreStage.bytes(100_000)) }
            try stage.settle()
            FileShare.start(1)
            do {
                let open = try stage.open("http://a.example/a")
                #expect(open.length == 100_000)
                #expect(try stage.body("http://a.example/a") != nil)
                #expect(try stage.body("http://a.example/b") == nil)
                try stage.insert("http://a.example/c", DiskStoreStage.bytes(100_000))
                try stage.settle()
                #expect(try stage.entries("http://a.example/c").isEmpty)
            }
            #expect(try stage.body("http://a.example/b") != nil)
            try stage.insert("http://a.example/c", DiskStoreStage.bytes(100_000))
            try stage.settle()
            #expect(try stage.body("http://a.example/c") != nil)
            // The want of a descriptor is no failure of the disk.
            #expect(stage.notices.with { $0 } == [])
        }
    }

    @Test("a closed store releases its folder, even while a child process has its descriptors")
    func copiedLock() throws {
        let folder = try TemporaryFolder()
        let first = try DiskStoreStage(folder)
        try first.insert("http://a.example/", Self.small)
        try first.settle()
        let lock = try #require(
            try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").first {
                let file = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
                return file == folder.path + "/cache/lock"
            }
        )
        let copy = dup(try #require(Int32(lock)))
        defer { close(copy) }
        first.store.close()
        let second = try DiskStoreStage(folder)
        #expect(try second.body("http://a.example/") == Self.small)
        #expect(second.notices.with { $0 } == [])
    }

    @Test("variants of a key coexist, and the later of one kind replaces the earlier")
    func variants() throws {
        let stage = try DiskStoreStage()
        let vary = [("Vary", "A")]
        try stage.insert("http://a.example/", Self.large, vary, to: [("A", "1")])
        try stage.insert("http://a.example/", Self.small, vary, to: [("A", "2")])
        try stage.settle()
        #expect(try stage.entries("http://a.example/").count == 2)
        try stage.insert("http://a.example/", [1, 2], vary, to: [("A", "1")])
        try stage.settle()
        #expect(Set(try stage.entries("http://a.example/").map(\.body.count)) == [2, Self.small.count])
        #expect(stage.files() == [])
    }

    @Test("3.3: a body that is aborted, cut short or too long is never found")
    func truncated() throws {
        let stage = try DiskStoreStage()
        let key = try Stage.key("http://a.example/")
        func begin(_ length: Int?) throws -> DiskInsertion {
            try #require(stage.store.insertion(for: key, try Stage.stored([]), tags: [], length: length))
        }
        for count in [10, 100_000] {
            let aborted = try begin(nil)
            aborted.append(Array(Self.large[..<count]))
            aborted.abort()
            let short = try begin(count + 1)
            short.append(Array(Self.large[..<count]))
            short.finish()
            let long = try begin(count - 1)
            long.append(Array(Self.large[..<count]))
            long.finish()
            do {
                let forgotten = try begin(nil)
                forgotten.append(Array(Self.large[..<count]))
            }
        }
        try stage.settle()
        #expect(try stage.entries("http://a.example/").isEmpty)
        #expect(stage.files("partial") == [] && stage.files() == [])
        #expect(stage.store.statistics.entries == 0)
    }

    @Test(
        "a file that is torn, changed, emptied or gone is a miss",
        arguments: ["torn", "changed", "emptied", "gone", "longer", "folder"]
    )
    func damagedFile(how: String) throws {
        let stage = try DiskStoreStage()
        try stage.insert("http://a.example/", Self.large)
        try stage.settle()
        // It was intact at first, and was read.
        #expect(try stage.body("http://a.example/") == Self.large)
        let file = try #require(stage.files().first)
        switch how {
        case "torn": truncate(file, 100_000)
        case "emptied": truncate(file, 0)
        case "gone": unlink(file)
        case "folder":
            unlink(file)
            mkdir(file, 0o700)
        default:
            let handle = try #require(FileHandle(forUpdatingAtPath: file))
            try handle.seek(toOffset: how == "longer" ? UInt64(Self.large.count) : 150_000)
            handle.write(Data([Self.large[150_000] ^ 1]))
            try handle.close()
        }
        #expect(try stage.body("http://a.example/") == nil)
        // The entry is gone as well.
        #expect(try stage.entries("http://a.example/").isEmpty)
        #expect(stage.store.statistics.entries == 0 && stage.store.statistics.offBecause == nil)
    }

    @Test("a changed byte in an indexed head or small body is a miss")
    func damagedRow() throws {
        for column in ["entry SET head", "small SET bytes", "entry SET checksum", "entry SET length"] {
            let folder = try TemporaryFolder()
            var stage: DiskStoreStage? = try DiskStoreStage(folder)
            try stage?.insert("http://a.example/", Self.small)
            try stage?.settle()
            stage = nil
            let isNumber = column.hasSuffix("checksum") || column.hasSuffix("length")
            let name = column.split(separator: " ").last ?? ""
            let change =
                isNumber ? "\(name) + 1" : "CAST(substr(\(name), 1, 20) || x'FF' || substr(\(name), 22) AS BLOB)"
            try DiskStoreStage.changeIndex(in: folder, "UPDATE \(column) = \(change)")
            let again = try DiskStoreStage(folder)
            #expect(try again.entries("http://a.example/").isEmpty, "\(column)")
            #expect(again.store.statistics.entries == 0 && again.store.statistics.offBecause == nil)
        }
    }

    @Test("the store keeps no more than its limit, the used entries longest")
    func bound() throws {
        let stage = try DiskStoreStage(capacity: 2_000_000)
        try stage.insert("http://a.example/kept", Self.small)
        for number in 0..<120 {
            try stage.insert("http://a.example/\(number)", DiskStoreStage.bytes(number % 3 == 0 ? 90_000 : 9000))
            if number % 10 == 0 {
                try stage.settle()
                #expect(try stage.body("http://a.example/kept") == Self.small, "\(number)")
            }
            #expect(stage.store.statistics.bytes <= 2_000_000 - 2_000_000 / 8)
        }
        try stage.settle()
        #expect(stage.store.statistics.evictions > 30)
        #expect(try stage.body("http://a.example/0") == nil)
        #expect(try stage.body("http://a.example/119") != nil)
        var onDisk = 0
        for file in stage.files() {
            onDisk += (try FileManager.default.attributesOfItem(atPath: file)[.size] as? Int) ?? 0
        }
        #expect(onDisk <= 2_000_000 && onDisk > 0)
        #expect(try !stage.insert("http://a.example/big", DiskStoreStage.bytes(250_001)))
    }

    @Test("a purge by URI, host or tag removes what it names, files too")
    func purging() throws {
        let stage = try DiskStoreStage()
        try stage.insert("http://a.example/1", Self.large, tags: ["x", "y"])
        try stage.insert("http://a.example/2", Self.large, tags: ["x"])
        try stage.insert("http://b.example/", Self.large)
        try stage.insert("http://c.example/", Self.small)
        try stage.settle()
        #expect(try stage.remove(.tag("x")) == 2)
        #expect(try stage.remove(.tag("y")) == 0)
        #expect(try stage.remove(.host("b.example")) == 1)
        #expect(try stage.remove(.uri(Stage.key("http://c.example/"))) == 1)
        #expect(stage.files() == [])
        try stage.insert("http://a.example/1", Self.large)
        try stage.settle()
        #expect(try stage.remove(.everything) == 1)
        #expect(stage.files() == [] && stage.store.statistics.bytes == 0)
    }

    @Test("4.3.4: a validated response replaces the head on disk")
    func update() throws {
        let folder = try TemporaryFolder()
        var stage: DiskStoreStage? = try DiskStoreStage(folder)
        try stage?.insert("http://a.example/", Self.large, [("ETag", "\"a\"")])
        try stage?.settle()
        let entry = try #require(try stage?.entries("http://a.example/").first)
        let fresh = entry.response.updated(
            by: try HeaderFields("X-New", "1"),
            to: try Stage.request(),
            requestTime: Stage.now + 10,
            responseTime: Stage.now + 10,
            Stage.shared
        )
        stage?.store.update(entry, by: fresh)
        stage = nil
        let again = try DiskStoreStage(folder)
        let found = try #require(try again.entries("http://a.example/").first)
        #expect(found.response.fields.value(for: "X-New") == "1")
        #expect(found.response.responseTime == Stage.now + 10)
        #expect(try again.body(of: found) == Self.large)
    }

    @Test("a purge finds a file by tags that a validation has brought, too", arguments: ["a", "b", "c"])
    func tagsOfValidations(tag: String) throws {
        let folder = try TemporaryFolder()
        var stage: DiskStoreStage? = try DiskStoreStage(folder)
        try stage?.insert("http://a.example/", Self.large, tags: ["a"])
        try stage?.settle()
        for fields in [[("Surrogate-Key", "b a")], [("Cache-Tag", "c")]] {
            let entry = try #require(try stage?.entries("http://a.example/").first)
            stage?.store.update(entry, by: try Stage.stored(fields))
        }
        stage = nil
        let again = try DiskStoreStage(folder)
        #expect(
            try again.entries("http://a.example/").first?.tags.map { String(decoding: $0, as: UTF8.self) } == [
                "c", "b", "a",
            ]
        )
        #expect(try again.remove(.tag(tag)) == 1)
        #expect(try again.entries("http://a.example/").isEmpty && again.files() == [])
    }

    @Test("a late validation leaves a head that has replaced its response")
    func lateUpdate() throws {
        let stage = try DiskStoreStage()
        let url = "http://a.example/"
        for newer in [Self.large, [7]] {
            try stage.insert(url, Array(Self.large.dropLast()), [("ETag", "\"old\"")])
            try stage.settle()
            let old = try #require(try stage.entries(url).first)
            try stage.insert(url, newer, [("ETag", "\"new\"")])
            try stage.settle()
            let fresh = old.response.updated(
                by: try HeaderFields("X-New", "1"),
                to: try Stage.request(),
                requestTime: Stage.now + 10,
                responseTime: Stage.now + 10,
                Stage.shared
            )
            stage.store.update(old, by: fresh)
            let found = try #require(try stage.entries(url).first)
            #expect(found.response.fields.value(for: "ETag") == "\"new\"")
            #expect(found.response.fields.value(for: "X-New") == nil)
            #expect(try stage.body(of: found) == newer)
        }
    }

    @Test("a validation removes another response that its new Vary makes redundant")
    func mergingUpdate() throws {
        let stage = try DiskStoreStage()
        let url = "http://a.example/"
        try stage.insert(url, [1], [("ETag", "\"a\"")])
        try stage.insert(url, [2], [("ETag", "\"b\""), ("Vary", "X")], to: [("X", "1")])
        try stage.settle()
        let first = try #require(try stage.entries(url).first { $0.response.selecting.isEmpty })
        let varying = first.response.updated(
            by: try HeaderFields("Vary", "X"),
            to: try Stage.request([("X", "1")]),
            requestTime: Stage.now,
            responseTime: Stage.now,
            Stage.shared
        )
        stage.store.update(first, by: varying)
        let entries = try stage.entries(url)
        #expect(entries.map { $0.response.fields.value(for: "ETag") } == ["\"a\""])
        #expect(try stage.body(of: try #require(entries.first)) == [1])
        #expect(stage.store.statistics.entries == 1)
    }

    @Test("an invalidation during a lookup is not missed")
    func expectedKey() throws {
        let stage = try DiskStoreStage()
        try stage.settle()
        let key = try Stage.key("http://a.example/")
        #expect(!stage.store.mayHave(key))
        let store = stage.store
        let seen = Monitor<[Bool]>([])
        for isWanted in [false, true] {
            let insertion = try #require(
                store.insertion(for: key, try Stage.stored([]), tags: [], length: 1) {
                    // Between this check and the insertion of the row no lookup may exclude the key.
                    seen.with { $0.append(store.mayHave(key)) }
                    return isWanted
                }
            )
            insertion.append([1])
            insertion.finish()
            try stage.settle()
            #expect(store.mayHave(key) == isWanted)
        }
        #expect(seen.with { $0 } == [true, true])
        _ = try stage.remove(.everything)
        #expect(!store.mayHave(key))
    }

    @Test("a body in use is read to its end, though it is purged")
    func purgedWhileRead() throws {
        let stage = try DiskStoreStage()
        try stage.insert("http://a.example/", Self.large)
        try stage.settle()
        let body = try stage.open("http://a.example/")
        #expect(try stage.remove(.everything) == 1)
        #expect(stage.files() == [])
        #expect(body.read(at: 0, count: 1 << 20) == Self.large)
    }

    @Test("bytes from the kernel's memory are the file's, up to its last byte")
    func cachedPieces() throws {
        let stage = try DiskStoreStage()
        try stage.insert("http://a.example/", Self.large)
        try stage.settle()
        let body = try stage.open("http://a.example/")
        // What is read is in the page cache afterwards.
        #expect(body.read(at: 0, count: 1 << 20) == Self.large)
        var buffer = ByteBuffer()
        while buffer.count < Self.large.count {
            guard body.bytes(buffer.count..<buffer.count + 50_000).readCached(into: &buffer) > 0 else { break }
        }
        let known = [UInt8](copying: buffer.bytes)
        #expect(known == Self.large)
        let beyond = body.bytes(Self.large.count..<Self.large.count + 1).readCached(into: &buffer)
        #expect(beyond == 0)
        #expect(body.bytes(Self.large.count - 5..<Int.max).range == Self.large.count - 5..<Self.large.count)
        #expect(body.bytes(0..<Int.max).inMemory.range == 0..<Self.large.count)
    }

    @Test("a thread reads what is not in memory, and the bytes are the same")
    func pieceOnDisk() throws {
        let stage = try DiskStoreStage()
        try stage.insert("http://a.example/", Self.large)
        try stage.settle()
        let body = try stage.open("http://a.example/")
        #expect(try stage.folder.dropFromPageCache() > 0)
        var buffer = ByteBuffer()
        // The kernel may have kept it, or have read ahead: then it has the right bytes.
        let count = body.bytes(0..<50_000).readCached(into: &buffer)
        let known = [UInt8](copying: buffer.bytes)
        #expect(known.elementsEqual(Self.large.prefix(count)))
        #expect(body.read(at: count, count: 1 << 20).map { known + $0 } == Self.large)
    }

    @Test("leftovers of an earlier process, and bodies without an entry, are removed")
    func cleaning() throws {
        let folder = try TemporaryFolder()
        try DiskStoreStage(folder).store.close()
        try folder.write("torn", as: "cache/partial/0123456789abcdef")
        try folder.write("orphan", as: "cache/bodies/01/0123456789abcdef")
        let stage = try DiskStoreStage(folder)
        try stage.insert("http://a.example/", Self.large)
        try stage.settle()
        try Patience.poll(for: "the sweep") { stage.files().count == 1 ? true : nil }
        #expect(stage.files("partial") == [])
        #expect(try stage.body("http://a.example/") == Self.large)
    }

    /// A result of the store, passed on under a lock.
    private static func delivered<Value: Sendable>(_ ask: (@escaping @Sendable (Value) -> Void) -> Void) throws -> Value
    {
        let box = Monitor<Value?>(nil)
        ask { value in box.with { $0 = .some(value) } }
        return try box.wait(for: "the store") { $0 }
    }

    @Test("concurrent readers and writers see only whole bodies")
    func concurrency() throws {
        let stage = try DiskStoreStage(capacity: 4_000_000)
        let store = stage.store
        let bodies = (0..<20).map { DiskStoreStage.bytes($0 * 5000, seed: UInt64($0)) }
        let faults = Monitor<[String]>([])
        let ended = Latch(count: 4)
        for thread in 0..<4 {
            Thread.detachNewThread {
                defer { ended.countDown() }
                do {
                    for fault in try Self.readAndWrite(store, bodies, seed: UInt64(thread)) {
                        faults.with { $0.append(fault) }
                    }
                } catch {
                    faults.with { $0.append("\(error)") }
                }
            }
        }
        ended.wait()
        #expect(faults.with { $0 }.isEmpty)
        try stage.settle()
        #expect(store.statistics.offBecause == nil)
    }

    /// - Returns: bytes that were read but never written.
    private static func readAndWrite(_ store: DiskStore, _ bodies: [[UInt8]], seed: UInt64) throws -> [String] {
        var faults: [String] = []
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<80 {
            let number = Int.random(in: 0..<20, using: &generator)
            let key = try Stage.key("http://a.example/\(number)")
            if Int.random(in: 0..<3, using: &generator) == 0 {
                let insertion = store.insertion(for: key, try Stage.stored([]), tags: [], length: nil)
                insertion?.append(bodies[number])
                insertion?.finish()
                continue
            }
            let found = try delivered { store.entries(for: key, deliver: { $0() }, $0) }
            switch found.first?.body {
            case nil, .parts?: break
            case .memory(let bytes)?: faults += [firstDifference(bytes.bytes, bodies[number])].compactMap { $0 }
            case .file(let file)?:
                // Nil when it was replaced between the two.
                if let body = try delivered({ store.open(file, deliver: { $0() }, $0) }) {
                    faults += [firstDifference(body.read(at: 0, count: 1 << 20), bodies[number])].compactMap { $0 }
                }
            }
        }
        return faults
    }

    @Test("kill -9 while writing leaves no wrong byte and no entry without its body")
    func killed() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/cache"
        let program = try Programs.built("CacheWriter")
        var generator = SeededGenerator(seed: 9)
        var entriesSeen = 0
        let rounds = Extent.of(40, whole: 200)
        for round in 0..<rounds {
            let child = try ChildProcess(program, [path, "\(round)", "8000000"])
            // After so many bodies, whatever the machine takes for them, and anywhere in the next one.
            let count = Int.random(in: 0..<40, using: &generator)
            _ = try child.waitForOutput("bodies") { $0.count { $0 == "." } >= count ? true : nil }
            usleep(UInt32.random(in: 0..<2000, using: &generator))
            child.signal(SIGKILL)
            _ = try child.waitForExit()
            let stage = try DiskStoreStage(folder, capacity: 8_000_000)
            // Each round checks some of the entries, and every twentieth checks all.
            let step = round % 20 == 19 ? 1 : 7
            for number in stride(from: round % step, to: 200, by: step) {
                for entry in try stage.entries("http://a.example/\(number)") {
                    let body = try #require(try stage.body(of: entry), "an entry without its body")
                    #expect(entry.response.fields.value(for: "X-Number") == "\(number)")
                    #expect(entry.response.fields.value(for: "X-Length") == "\(body.count)")
                    #expect(Self.isRight(body, UInt64(number)), "a wrong byte")
                    entriesSeen += 1
                }
            }
            #expect(stage.store.statistics.offBecause == nil)
            stage.store.close()
        }
        #expect(entriesSeen > 5 * rounds)
    }

    private static func isRight(_ body: [UInt8], _ number: UInt64) -> Bool {
        // As CacheWriter makes it.
        let period = (0..<256 as Range<UInt64>).map { UInt8(truncatingIfNeeded: number &* 31 &+ $0 &* 7) }
        var expected: [UInt8] = []
        while expected.count < body.count { expected += period }
        expected.removeLast(expected.count - body.count)
        return firstDifference(body, expected) == nil
    }

    @Test("the store knows what it surely lacks, after a restart too")
    func filter() throws {
        let folder = try TemporaryFolder()
        for round in 0..<2 {
            let stage = try DiskStoreStage(folder, capacity: 3_000_000)
            if round == 0 {
                for number in 0..<400 { try stage.insert("http://a.example/\(number)", DiskStoreStage.bytes(20_000)) }
                try stage.settle()
                #expect(try stage.remove(.uri(Stage.key("http://a.example/399"))) == 1)
            }
            // Until the rows are counted, no key can be excluded.
            try Patience.poll(for: "the rows to be counted") {
                try stage.store.mayHave(Stage.key("http://none.example/\(UInt64.random(in: 0 ... .max))")) ? nil : true
            }
            var present = 0
            var supposed = 0
            for number in 0..<400 {
                let isThere = try !stage.entries("http://a.example/\(number)").isEmpty
                let mayBe = try stage.store.mayHave(Stage.key("http://a.example/\(number)"))
                #expect(!isThere || mayBe)
                present += isThere ? 1 : 0
                supposed += mayBe ? 1 : 0
            }
            #expect(present > 50 && present < 200)
            #expect(supposed < present + 40)
            stage.store.close()
        }
    }
}
