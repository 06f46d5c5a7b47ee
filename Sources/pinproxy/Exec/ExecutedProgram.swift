// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// A program run for its exit code (posix_spawn(3)).
///
/// `Sendable` because nothing changes after `init`; `kill` and `wait` are system calls.
final class ExecutedProgram: Sendable {
    let identifier: pid_t

    /// The reason why a program could not be started.
    struct SpawnFailure: Error {
        /// The `errno` value.
        var code: Int32
    }

    /// Starts a program, found through PATH unless its name has a slash.
    ///
    /// - Parameters:
    ///   - arguments: the program first.
    ///   - environment: the whole environment as `NAME=value`.
    ///   - signalMask: the signals that the program has blocked; SIGPIPE and SIGXFSZ have their default effect again.
    ///   - descriptors: those that the program gets, and no other one.
    init(
        _ arguments: [String],
        environment: [String],
        signalMask: sigset_t,
        descriptors: InheritedDescriptors
    ) throws(SpawnFailure) {
        var actions = posix_spawn_file_actions_t()
        guard posix_spawn_file_actions_init(&actions) == 0 else { throw SpawnFailure(code: ENOMEM) }
        defer { posix_spawn_file_actions_destroy(&actions) }
        let kept = descriptors.numbers
        let fault = pinproxy_spawn_keeps_only(&actions, kept, kept.count)
        guard fault == 0 else { throw SpawnFailure(code: fault) }
        var attributes = posix_spawnattr_t()
        guard posix_spawnattr_init(&attributes) == 0 else { throw SpawnFailure(code: ENOMEM) }
        defer { posix_spawnattr_destroy(&attributes) }
        var mask = signalMask
        var defaults = sigset_t()
        sigemptyset(&defaults)
        sigaddset(&defaults, SIGPIPE)
        sigaddset(&defaults, SIGXFSZ)
        posix_spawnattr_setsigmask(&attributes, &mask)
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK) | Int16(POSIX_SPAWN_SETSIGDEF))

        let words = CStrings(arguments)
        let variables = CStrings(environment)
        var identifier = pid_t()
        let code = withExtendedLifetime((words, variables)) {
            posix_spawnp(&identifier, arguments[0], &actions, &attributes, words.pointers, variables.pointers)
        }
        guard code == 0 else { throw SpawnFailure(code: code) }
        self.identifier = identifier
    }

    /// Waits until the program has ended, without removing its process entry: its number stays reserved until then.
    func waitForEnd() {
        var information = siginfo_t()
        while waitid(P_PID, id_t(identifier), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
    }

    /// Collects the ended program's exit code; 128 plus the signal's number if a signal ended it, as shells report it.
    func collect() -> Int32 {
        var status: Int32 = 0
        while waitpid(identifier, &status, 0) < 0 {
            guard errno == EINTR else { return 127 }
        }
        // The layout that WIFEXITED and similar macros read (wait(2)).
        let signal = status & 0x7F
        return signal == 0 ? status >> 8 & 0xFF : 128 + signal
    }

    func send(_ signal: Int32) { kill(identifier, signal) }
}

/// A null-terminated array of C strings for exec, which owns their memory.
private final class CStrings {
    private(set) var pointers: [UnsafeMutablePointer<CChar>?]

    init(_ texts: [String]) {
        pointers = texts.map { strdup($0) } + [nil]
    }

    deinit {
        for pointer in pointers { free(pointer) }
    }
}

/// The descriptors that this process was started with, for a program that it runs in its place.
struct InheritedDescriptors {
    /// In rising order.
    let numbers: [Int32]

    /// Looks which are open: called before this process opens its own.
    static func find() -> InheritedDescriptors { InheritedDescriptors(numbers: openDescriptors.sorted()) }

    private static var openDescriptors: [Int32] {
        guard let folder = opendir("/proc/self/fd") else { return openWithoutProc }
        defer { closedir(folder) }
        var numbers: [Int32] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { raw in
                String(decoding: raw.prefix { $0 != 0 }, as: UTF8.self)
            }
            if let number = Int32(name), number != dirfd(folder) { numbers.append(number) }
        }
        return numbers
    }

    /// Each number is asked about, up to the limit of this process.
    private static var openWithoutProc: [Int32] {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return [0, 1, 2] }
        return (0..<Int32(clamping: min(limit.rlim_cur, 1 << 16))).filter { fcntl($0, F_GETFD) >= 0 }
    }
}
