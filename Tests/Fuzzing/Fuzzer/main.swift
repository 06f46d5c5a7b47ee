// SPDX-License-Identifier: Apache-2.0
import CLibFuzzer
import Foundation
import FuzzTargets

// `make fuzz`: libFuzzer over one target, which FUZZ_TARGET names; the arguments are those of libFuzzer. With `--seeds
// FOLDER` it writes the generated seeds, and ends.

nonisolated(unsafe) private var session: FuzzSession?

private func say(_ message: String) {
    FileHandle.standardError.write(Data((message + "\n").utf8))
}

private func fail(_ message: String) -> Never {
    say(message)
    exit(64)
}

private func target() -> FuzzTarget {
    let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: ", ")
    guard let name = getenv("FUZZ_TARGET").map({ String(cString: $0) }), let target = FuzzTarget(rawValue: name) else {
        fail("FUZZ_TARGET has to be one of \(names)")
    }
    return target
}

/// libFuzzer calls this for each input. A finding ends the process, so that libFuzzer keeps the input.
private func take(_ data: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
    do {
        try session?.run(Array(UnsafeBufferPointer(start: data, count: count)))
    } catch {
        say("finding: \(error.message)")
        abort()
    }
    return 0
}

do {
    let made = try FuzzSession(target(), isAlone: true)
    // One authority instead of the machine's 140, which would be parsed for each configuration.
    setenv("SSL_CERT_FILE", made.authorityFile, 1)
    if CommandLine.arguments.count == 3, CommandLine.arguments[1] == "--seeds" {
        try made.writeSeeds(to: CommandLine.arguments[2])
        exit(0)
    }
    session = made
} catch {
    fail("\(error)")
}
// The arguments belong to the C library for the lifetime of the process.
var count = CommandLine.argc
var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv
exit(LLVMFuzzerRunDriver(&count, &arguments, take))
