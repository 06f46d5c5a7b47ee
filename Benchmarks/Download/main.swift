// SPDX-License-Identifier: Apache-2.0
// A large download with a restart in the middle: one process fetches half of a file from nginx over TLS and ends, another
// goes on with the resume data. One file, the right digest, flat memory: `make bench-download`; Benchmarks/README.md
// tells how to read it.
//
// And a slow consumer of a stream of 1 GB: every byte, flat memory: `make bench-stream`.

import Foundation

do {
    switch Array(CommandLine.arguments.dropFirst()) {
    case []: try DownloadBenchmark(bytes: 2 << 30).run()
    case let arguments where arguments.first == "fetch": try await Fetch(arguments).run()
    case let arguments where arguments.first == "consume": try await Consume(arguments).run()
    case ["stream"]: try StreamBenchmark(bytes: 1 << 30).run()
    case let arguments where arguments.count == 1:
        guard let megabytes = Int(arguments[0]), megabytes > 1 else { fallthrough }
        try DownloadBenchmark(bytes: megabytes << 20).run()
    default: print("usage: download-benchmark [MEGABYTES | stream]")
    }
} catch {
    print("\(error)")
    exit(1)
}
