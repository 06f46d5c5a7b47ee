// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCaching
import HTTPCore
import IOCore

// Stores responses in a disk store, one after the other and several at a time, until it is killed:
//
//     CacheWriter FOLDER SEED CAPACITY
//
//     CacheWriter --memory CAPACITY LARGEST [TURNOVER]
//
// says how much memory the process has when a memory store is full; `make bench-cache-memory` runs it.
//
// Every notice of the store goes to standard error.
//
// A body's first eight bytes are its number and its length, and every byte follows from the number, so that a reader
// can verify a body. It prints "ready" at the start, and a dot for each body that is whole.

/// A generator of numbers, the same for the same seed.
struct Numbers {
    var state: UInt64

    mutating func next(below bound: UInt64) -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return (state >> 33) % bound
    }
}

if CommandLine.arguments[1] == "--memory" {
    var use = MemoryUse(capacity: Int(CommandLine.arguments[2])!, largest: Int(CommandLine.arguments[3])!)
    if CommandLine.arguments.count > 4 { use.turnover = Int(CommandLine.arguments[4])! }
    try use.run()
}

let folder = CommandLine.arguments[1]
var numbers = Numbers(state: UInt64(CommandLine.arguments[2])!)
let capacity = Int(CommandLine.arguments[3])!

func body(_ number: UInt64, _ length: Int) -> [UInt8] {
    // The bytes are the same again after 256, and are copied: tests start it hundreds of times, without optimisation.
    let period = (0..<256 as Range<UInt64>).map { UInt8(truncatingIfNeeded: number &* 31 &+ $0 &* 7) }
    var bytes: [UInt8] = []
    while bytes.count < length { bytes += period }
    bytes.removeLast(bytes.count - length)
    return bytes
}

let options = CacheOptions()
var configuration = DiskStore.Configuration(folder: folder, capacity: capacity)
configuration.pause = 0.05
configuration.quiet = 0
let store = try DiskStore(configuration, options) { text in
    DescriptorOutput.write(text + "\n", to: STDERR_FILENO)
}
DescriptorOutput.write("ready\n", to: STDOUT_FILENO)

func waitForIndex() {
    guard let key = CacheKey(url: "http://a.example/0") else { fatalError() }
    let latch = Latch(count: 1)
    store.entries(for: key, deliver: { $0() }, { _ in latch.countDown() })
    latch.wait()
}

var open: [(DiskInsertion, [UInt8], Int)] = []
while true {
    if open.count < 4 {
        let number = numbers.next(below: 200)
        let length = Int(numbers.next(below: 4) == 0 ? numbers.next(below: 400_000) : numbers.next(below: 20_000))
        guard let key = CacheKey(url: "http://a.example/\(number)") else { fatalError() }
        var fields = HeaderFields()
        try fields.append(name: "Cache-Control", value: "max-age=1000")
        try fields.append(name: "X-Number", value: "\(number)")
        try fields.append(name: "X-Length", value: "\(length)")
        let response = StoredResponse(
            status: 200,
            response: fields,
            to: CacheRequest(method: .get, fields: HeaderFields()),
            requestTime: 0,
            responseTime: 0,
            digest: .none,
            options
        )
        if let insertion = store.insertion(for: key, response, tags: [], length: nil) {
            open.append((insertion, body(number, length), 0))
        }
    }
    // While the disk is full nothing is stored.
    guard !open.isEmpty else {
        waitForIndex()
        continue
    }
    let index = Int(numbers.next(below: UInt64(open.count)))
    let (insertion, bytes, place) = open[index]
    let end = min(bytes.count, place + 1 + Int(numbers.next(below: 60_000)))
    insertion.append(Array(bytes[place..<end]))
    open[index].2 = end
    if end == bytes.count {
        if numbers.next(below: 8) == 0 {
            insertion.abort()
        } else {
            insertion.finish()
            DescriptorOutput.write(".", to: STDOUT_FILENO)
        }
        open.remove(at: index)
    }
    // Not faster than the disk: each round waits for a lookup in the index.
    if numbers.next(below: 16) == 0 { waitForIndex() }
}
