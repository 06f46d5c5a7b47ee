// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCaching
import HTTPCore
import IOCore
import Synchronization

/// How much memory the process takes up beside what its cache may have: `make bench-cache-memory`.
///
/// Two threads store bodies from 100 bytes to `largest`, each size class as often as the next, in pieces, four at a
/// time, until they have stored `turnover` times the capacity.
struct MemoryUse {
    /// The capacity in bytes.
    let capacity: Int
    /// The size of the largest bodies, in bytes.
    let largest: Int
    /// So many times the capacity is stored.
    var turnover = 10

    private static let options = CacheOptions()
    private static let now = 1_795_000_000
    private static let responseFields = [
        ("Server", "nginx"), ("Date", "Sat, 21 Nov 2026 06:00:00 GMT"), ("Content-Type", "application/json"),
        ("Last-Modified", "Fri, 20 Nov 2026 06:00:00 GMT"), ("ETag", "\"5f3a-1b2c\""),
        ("Cache-Control", "max-age=3600"),
        ("Accept-Ranges", "bytes"),
    ]

    /// Private resident memory in bytes (`RssAnon` of proc(5)).
    static func resident() -> Int {
        guard let file = fopen("/proc/self/status", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        while fgets(&line, 256, file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if text.hasPrefix("RssAnon:") { return Int(text.filter(\.isNumber)).map { $0 << 10 } ?? 0 }
        }
        return 0
    }

    private func work(_ store: CacheStore, seed: UInt64) throws {
        var state = seed
        func random() -> Double {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Double(state >> 11) / Double(UInt64(1) << 53)
        }
        let piece = [UInt8](repeating: 7, count: 16 << 10)
        var open: [(insertion: CacheInsertion, left: Int)] = []
        var stored = 0
        let origin = Origin(scheme: .https, host: try Host("api.example.com"))
        while stored < capacity * turnover / 2 || !open.isEmpty {
            if open.count < 4, stored < capacity * turnover / 2 {
                let length = Int(100 * exp(random() * log(Double(largest) / 100)))
                let number = Int(random() * 1e9)
                let key = CacheKey(method: .get, origin: origin, target: Array("/v1/things/\(number)".utf8).span)
                var fields = HeaderFields()
                for (name, value) in Self.responseFields { try fields.append(name: name, value: value) }
                let response = StoredResponse(
                    status: 200,
                    response: fields,
                    to: CacheRequest(method: .get, fields: HeaderFields()),
                    requestTime: Self.now,
                    responseTime: Self.now,
                    digest: PolicyDigest([1]),
                    Self.options
                )
                // Half of the origins say no length.
                let insertion = store.insertion(
                    for: key,
                    response,
                    epoch: store.epoch(of: key),
                    length: random() < 0.5 ? length : nil
                )
                // With its head.
                stored += length + 1500
                if let insertion { open.append((insertion, length)) }
            }
            guard !open.isEmpty else { continue }
            let index = Int(random() * Double(open.count))
            let count = min(open[index].left, piece.count)
            open[index].insertion.append(piece.span.extracting(0..<count))
            open[index].left -= count
            if open[index].left == 0 { open.remove(at: index).insertion.finish() }
        }
    }

    func run() throws {
        let store = CacheStore(memory: MemoryStore(capacity: capacity), Self.options)
        let before = Self.resident()
        func say(_ name: String, _ bytes: Int) {
            let share = Double(bytes - before) / Double(capacity)
            print(
                "\(name): \((bytes - before) >> 20) MB above \(before >> 20) MB, \(Int(share * 100)) % of the capacity"
            )
        }
        let running = Atomic<Int>(2)
        let ended = Latch(count: 2)
        var threads: [WorkThread] = []
        for number in 1...2 {
            let thread = try WorkThread(starting: "store-\(number)")
            threads.append(thread)
            thread.submit {
                do { try work(store, seed: UInt64(number)) } catch { fatalError("\(error)") }
                running.subtract(1, ordering: .relaxed)
                ended.countDown()
            }
        }
        var highest = 0
        while running.load(ordering: .relaxed) > 0 {
            highest = max(highest, Self.resident())
            usleep(2000)
        }
        ended.wait()
        let numbers = store.memory.statistics
        print("capacity \(capacity >> 20) MB; \(numbers.entries) entries of \(numbers.bytes >> 20) MB")
        say("highest", highest)
        let purged = Latch(count: 1)
        store.remove(.everything, deliver: { $0() }, { _ in purged.countDown() })
        purged.wait()
        // As the workers do after a purge.
        for thread in threads {
            let latch = Latch(count: 1)
            thread.submit {
                SystemMemory.release()
                latch.countDown()
            }
            latch.wait()
        }
        SystemMemory.release()
        say("after a purge", Self.resident())
        exit(0)
    }
}
