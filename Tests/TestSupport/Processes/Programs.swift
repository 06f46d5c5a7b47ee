// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// The programs of the machine that tests run.
package enum Programs {
    package struct Missing: Error, CustomStringConvertible {
        package let description: String
    }

    /// The server of Redis. `PINPROXY_REDIS` names another program that takes the same options, as valkey-server, or its path.
    package static let redis = environment["PINPROXY_REDIS"] ?? "redis-server"

    /// The path of a program, also in the folders for administrators, where Debian installs nginx; a path is its own.
    ///
    /// - Throws: `Missing`, with the name of its package. A missing program fails a test and never skips it.
    package static func path(of name: String) throws -> String {
        if name.contains("/") { return name }
        let search = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        for folder in search + ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"] {
            let candidate = "\(folder)/\(name)"
            if FileManager.default.isExecutableFile(atPath: candidate) { return candidate }
        }
        throw Missing(
            description:
                "\(name) is not installed; `make test` installs what the tests need (or: apt-get install \(name))"
        )
    }

    /// The path of a program of this build, in the folder of the tests' executable. `PINPROXY_PROGRAM` names another build of
    /// `pinproxy`, as the one that ships.
    package static func built(_ name: String) throws -> String {
        if name == "pinproxy", let other = environment["PINPROXY_PROGRAM"] { return other }
        let folder = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
        let candidate = folder.appendingPathComponent(name).path
        guard FileManager.default.isExecutableFile(atPath: candidate) else {
            throw Missing(
                description: "\(name) is not in \(folder.path); build it (`swift build`) before the tests run"
            )
        }
        return candidate
    }

    /// Whether this build uses AddressSanitizer or ThreadSanitizer.
    package static var isSanitized: Bool {
        dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil
    }

    /// The environment of this process without any proxy setting.
    package static var environment: [String: String] {
        ProcessInfo.processInfo.environment.filter { !$0.key.lowercased().hasSuffix("_proxy") }
    }

    /// Runs a program to its end.
    ///
    /// - Returns: its exit code and its output.
    package static func run(
        _ program: String,
        _ arguments: [String],
        environment: [String: String] = environment,
        folder: String? = nil,
        seconds: Double = Patience.seconds
    ) throws -> Finished {
        let child = try ChildProcess(try path(of: program), arguments, environment: environment, folder: folder)
        return try child.waitForExit(seconds: seconds)
    }

    /// A line of a password file without the user: the password's hash (SHA-512 of crypt(5)), made by OpenSSL.
    package static func passwordHash(_ password: String, rounds: Int = 1000) throws -> String {
        let finished = try run("openssl", ["passwd", "-6", "-salt", "rounds=\(rounds)$saltsalt", password])
        guard finished.output.hasPrefix("$6$rounds=\(rounds)$saltsalt$") else {
            throw ChildProcess.Failure(description: "openssl passwd: \(finished.output) \(finished.errors)")
        }
        return finished.output
    }

    /// The result of a program.
    package struct Finished: Sendable {
        package let exitCode: Int32
        package let output: String
        package let errors: String
    }
}
