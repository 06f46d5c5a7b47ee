// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCaching
import HTTPCore
import IOCore
import Synchronization

/// How long a cache on disk takes from its start to its first answer, by how much is in it: `make bench-cache-start`.
struct DiskStart {
    let folder: String
    /// To be stored, in bodies of 100 KB.
    let bytes: Int

    private static let bodySize = 100 << 10
    private static let options = CacheOptions()
    private static let digest = PolicyDigest([1])

    private func open() throws -> DiskStore {
        let configuration = DiskStore.Configuration(folder: folder, capacity: bytes * 2)
        return try DiskStore(configuration, Self.options) { print($0) }
    }

    private func key(_ number: Int) throws -> CacheKey {
        let origin = Origin(scheme: .https, host: try Host("api.example.com"))
        return CacheKey(method: .get, origin: origin, target: Array("/objects/\(number)".utf8).span)
    }

    private func response() throws -> StoredResponse {
        var fields = HeaderFields()
        for (name, value) in [
            ("Date", "Sat, 21 Nov 2026 06:00:00 GMT"), ("Content-Type", "application/zip"), ("ETag", "\"1\""),
            ("Cache-Control", "max-age=31536000"),
        ] {
            try fields.append(name: name, value: value)
        }
        return StoredResponse(
            status: 200,
            response: fields,
            to: CacheRequest(method: .get, fields: HeaderFields()),
            requestTime: 1_795_000_000,
            responseTime: 1_795_000_000,
            digest: Self.digest,
            Self.options
        )
    }

    private func fill() throws -> Int {
        let count = bytes / Self.bodySize
        let store = try open()
        defer { store.close() }
        let response = try response()
        var body = [UInt8](repeating: 0, count: Self.bodySize)
        for number in 0..<count {
            // Each of its own, so that nothing below can keep two as one.
            withUnsafeBytes(of: number) { for (index, byte) in $0.enumerated() { body[index] = byte } }
            guard let insertion = store.insertion(for: try key(number), response, tags: [], length: body.count) else {
                fatalError("the store takes no body")
            }
            insertion.append(body)
            insertion.finish()
            // Not more at a time than the disk takes: what waits too long is given up.
            while number % 64 == 63, store.statistics.entries < number { usleep(500) }
            if number % 10_000 == 9_999 { print("\(number + 1) of \(count)") }
        }
        return count
    }

    func run() throws {
        let count = try fill()
        let began = Clock.monotonic
        let store = try open()
        let answered = Latch(count: 1)
        let found = Atomic<Int>(0)
        store.entries(for: try key(count / 2), deliver: { $0() }) { entries in
            guard case .file(let file)? = entries.first?.body else { return answered.countDown() }
            store.open(file, deliver: { $0() }) { body in
                found.store(body?.length ?? 0, ordering: .relaxed)
                answered.countDown()
            }
        }
        answered.wait()
        let milliseconds = Double(Clock.monotonic - began) / 1e6
        guard found.load(ordering: .relaxed) == Self.bodySize else { fatalError("what was stored is not found") }
        print("\(count) bodies, \(bytes >> 20) MB: open, and the first body verified, after \(milliseconds) ms")
        store.close()
    }
}
