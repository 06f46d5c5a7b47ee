// SPDX-License-Identifier: Apache-2.0
// What a request costs in a session: COUNT requests with WIDTH in flight, by the session core or by Foundation's
// URLSession. `core2` is the session core over HTTP/2. `make bench-session` runs it beside a program of libcurl alone; Benchmarks/README.md tells how to read it.
//
//   session-benchmark core|core2|urlsession URL COUNT WIDTH [CAFILE HOST:PORT]
//
// Prints: microseconds of CPU time, microseconds of time, bytes.

import Foundation

let words = CommandLine.arguments
guard words.count == 5 || words.count == 7, let count = Int(words[3]), let width = Int(words[4]) else {
    FileHandle.standardError.write(
        Data("session-benchmark core|core2|urlsession URL COUNT WIDTH [CAFILE HOST:PORT]\n".utf8)
    )
    exit(64)
}
let load = Load(url: words[2], count: count, width: width)
do {
    let figures =
        switch words[1] {
        case "core", "core2":
            try load.runCore(overHTTP2: words[1] == "core2", place: words.count == 7 ? (words[5], words[6]) : nil)
        default: load.runFoundation()
        }
    print("\(figures.cpu) \(figures.time) \(figures.bytes)")
    exit(figures.failures == 0 ? 0 : 1)
} catch {
    FileHandle.standardError.write(Data("\(error)\n".utf8))
    exit(1)
}
