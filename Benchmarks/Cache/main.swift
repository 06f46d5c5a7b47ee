// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCaching
import HTTPCore
import IOCore

// What the cache costs a request, the sockets aside: `make bench-cache`; Benchmarks/README.md tells how to read it.

let now = 1_795_000_000
let options = CacheOptions()
let digest = PolicyDigest([1])

func fields(_ pairs: [(String, String)]) throws -> HeaderFields {
    var fields = HeaderFields()
    for (name, value) in pairs { try fields.append(name: name, value: value) }
    return fields
}

if CommandLine.arguments.count == 4, CommandLine.arguments[1] == "--start", let bytes = Int(CommandLine.arguments[3]) {
    try DiskStart(folder: CommandLine.arguments[2], bytes: bytes).run()
    exit(0)
}

/// CPU nanoseconds a round: the median of nine runs.
func measure(_ name: String, rounds: Int, _ body: () throws -> Void) rethrows {
    var runs: [Double] = []
    for _ in 0..<9 {
        var begin = timespec()
        var end = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin)
        for _ in 0..<rounds { try body() }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end)
        let seconds = Double(end.tv_sec - begin.tv_sec) + Double(end.tv_nsec - begin.tv_nsec) / 1e9
        runs.append(seconds / Double(rounds) * 1e9)
    }
    let median = runs.sorted()[4]
    print(name + String(repeating: " ", count: max(1, 60 - name.count)) + "\(Int(median)) ns")
}

let asked = try fields([
    ("User-Agent", "curl/7.88.1"), ("Accept", "*/*"), ("Accept-Encoding", "gzip, br"), ("Host", "api.example.com"),
])
let answered: [(String, String)] = [
    ("Server", "nginx"), ("Date", "Sat, 21 Nov 2026 06:00:00 GMT"), ("Content-Type", "application/json"),
    ("Last-Modified", "Fri, 20 Nov 2026 06:00:00 GMT"), ("ETag", "\"5f3a-1b2c\""), ("Cache-Control", "max-age=3600"),
    ("Accept-Ranges", "bytes"),
]
let target = Array("/v1/things/12345?expand=all".utf8)
let origin = Origin(scheme: .https, host: try Host("api.example.com"))
let store = MemoryStore(capacity: 256 << 20)
let request = CacheRequest(method: .get, fields: asked)

func insert(_ target: [UInt8], _ more: [(String, String)] = []) throws {
    let response = StoredResponse(
        status: 200,
        response: try fields(answered + more),
        to: request,
        requestTime: now,
        responseTime: now,
        digest: digest,
        options
    )
    let key = CacheKey(method: .get, origin: origin, target: target.span)
    store.insert(
        CachedEntry(key: key, response: response, body: .memory(StoredBytes([UInt8](repeating: 120, count: 1024))))
    )
}

/// As the proxy does it: key, lookup, selection, decision, and the answer's fields.
func hit(_ target: [UInt8]) -> Int {
    let key = CacheKey(method: .get, origin: origin, target: target.span)
    let request = CacheRequest(method: .get, fields: asked)
    let entries = store.entries(for: key)
    guard let index = CachedEntry.select(among: entries, for: request, under: digest, options) else { return 0 }
    let entry = entries[index]
    entry.markUsed()
    let use = ReuseDecision.decide(request, stored: entry.response, hasVariants: true, now: now + 5, options)
    guard case .reuse(let reuse) = use else { return 0 }
    let answer = CacheResponse(entry.response, length: entry.body.count, to: request, age: reuse.freshness.age)
    return answer.fields.count
}

for number in 0..<100_000 { try insert(Array("/v1/other/\(number)".utf8)) }
try insert(target)
guard hit(target) == answered.count + 1 else { fatalError("not a hit") }
measure("a hit among 100,000 entries", rounds: 100_000) { _ = hit(target) }
try insert(Array("/vary".utf8), [("Vary", "Accept-Encoding")])
guard hit(Array("/vary".utf8)) > 0 else { fatalError("not a hit") }
let varied = Array("/vary".utf8)
measure("the same with Vary: Accept-Encoding", rounds: 100_000) { _ = hit(varied) }
let absent = Array("/absent".utf8)
measure("a miss", rounds: 100_000) { _ = hit(absent) }
let response = try fields(answered)
measure("what may be stored, and its head", rounds: 50_000) {
    guard Storability.evaluate(request, status: 200, response: response, options) == .storable else {
        fatalError("not storable")
    }
    _ = StoredResponse(
        status: 200,
        response: response,
        to: request,
        requestTime: now,
        responseTime: now,
        digest: digest,
        options
    )
}
let full = MemoryStore(capacity: 8 << 20)
let kept = try CachedEntry(
    key: CacheKey(method: .get, origin: origin, target: target.span),
    response: StoredResponse(
        status: 200,
        response: fields(answered),
        to: request,
        requestTime: now,
        responseTime: now,
        digest: digest,
        options
    ),
    body: .memory(StoredBytes([UInt8](repeating: 120, count: 1024)))
)
var number = 0
measure("an insertion into a full store, with an eviction", rounds: 50_000) {
    number += 1
    let key = CacheKey(method: .get, origin: origin, target: Array("/n/\(number)".utf8).span)
    full.insert(CachedEntry(key: key, response: kept.response, body: kept.body))
}
let block = [UInt8](repeating: 7, count: 1 << 20)
measure("the checksum of 1 MB", rounds: 200) { _ = XXH64.hash(block.span) }
