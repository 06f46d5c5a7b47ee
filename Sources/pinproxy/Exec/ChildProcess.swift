import Glibc

/// A program run for its exit code (posix_spawn(3)).
///
/// `Sendable` because nothing changes after `init`; `kill` and `wait` are system calls.
final class ChildProcess: Sendable {
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
    init(_ arguments: [String], environment: [String], signalMask: sigset_t) throws(SpawnFailure) {
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
            posix_spawnp(&identifier, arguments[0], nil, &attributes, words.pointers, variables.pointers)
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
