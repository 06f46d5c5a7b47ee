// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// A program that a test runs. Its output is kept, every wait has a limit, and it is killed with this object, however
/// the test ends. It leads a process group, so that its children end with it.
package final class ChildProcess: Sendable {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String

        package init(description: String) { self.description = description }
    }

    private struct State {
        var output: [UInt8] = []
        var errors: [UInt8] = []
        /// The number of pipes that have not ended.
        var openPipes = 2
        /// The exit code, or 128 plus the signal, as in a shell.
        var exitCode: Int32?
    }

    package let identifier: Int32
    private let program: String
    private let state = Monitor(State())
    /// The write end of its standard input, which stays empty and is closed with this object.
    private let input: Int32

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - program: its path.
    ///   - folder: its working folder; nil for that of the tests.
    ///   - passing: descriptors that it gets as 3, 4 and so on. It inherits no other descriptors.
    package init(
        _ program: String,
        _ arguments: [String],
        environment: [String: String] = Programs.environment,
        folder: String? = nil,
        passing: [Int32] = []
    ) throws {
        self.program = program
        let silence = try Self.pipe()
        let output = try Self.pipe()
        let errors = try Self.pipe()
        input = silence.write
        defer {
            close(silence.read)
            close(output.write)
            close(errors.write)
        }
        do {
            identifier = try Self.spawn(
                [program] + arguments,
                environment,
                folder,
                [silence.read, output.write, errors.write] + passing
            )
        } catch {
            for end in [silence.write, output.read, errors.read] { close(end) }
            throw error
        }
        gather(output.read) { $0.output += $1 }
        gather(errors.read) { $0.errors += $1 }
        reap()
    }

    deinit {
        signal(SIGKILL)
        _ = try? state.wait(for: "\(program) to die") { $0.exitCode }
        close(input)
    }

    // MARK: What it says

    package var output: String { state.read { String(decoding: $0.output, as: UTF8.self) } }
    package var errors: String { state.read { String(decoding: $0.errors, as: UTF8.self) } }
    package var exitCode: Int32? { state.read(\.exitCode) }

    /// Waits until its standard output meets a condition; fails immediately when it ends before.
    package func waitForOutput<Result>(_ what: String, _ body: (String) throws -> Result?) throws -> Result {
        try waitFor(what, \.output, body)
    }

    /// The same for its standard error.
    package func waitForErrors<Result>(_ what: String, _ body: (String) throws -> Result?) throws -> Result {
        try waitFor(what, \.errors, body)
    }

    private func waitFor<Result>(
        _ what: String,
        _ stream: KeyPath<State, [UInt8]>,
        _ body: (String) throws -> Result?
    ) throws -> Result {
        try state.wait(for: "\(what) from \(program)") { state in
            if let result = try body(String(decoding: state[keyPath: stream], as: UTF8.self)) { return result }
            if let exitCode = state.exitCode, state.openPipes == 0 {
                throw Failure(
                    description: "\(program) ended with \(exitCode) before \(what): "
                        + String(decoding: state.errors + state.output, as: UTF8.self)
                )
            }
            return nil
        }
    }

    /// Waits for its end, and that of its output.
    @discardableResult
    package func waitForExit(seconds: Double = Patience.seconds) throws -> Programs.Finished {
        try state.wait(for: "the end of \(program)", seconds: seconds) { state in
            guard let exitCode = state.exitCode, state.openPipes == 0 else { return nil }
            return Programs.Finished(
                exitCode: exitCode,
                output: String(decoding: state.output, as: UTF8.self),
                errors: String(decoding: state.errors, as: UTF8.self)
            )
        }
    }

    /// Sends a signal, unless it has ended, because its number may be reused then.
    package func signal(_ number: Int32) {
        state.with { state in
            if state.exitCode == nil { kill(number == SIGKILL ? -identifier : identifier, number) }
        }
    }

    // MARK: Threads

    private func gather(_ descriptor: Int32, _ add: @escaping @Sendable (inout State, ArraySlice<UInt8>) -> Void) {
        let state = state
        Thread.detachNewThread {
            var buffer = [UInt8](repeating: 0, count: 64 << 10)
            while true {
                let count = read(descriptor, &buffer, buffer.count)
                if count < 0, errno == EINTR { continue }
                if count <= 0 { break }
                state.with { add(&$0, buffer[..<count]) }
            }
            close(descriptor)
            state.with { $0.openPipes -= 1 }
        }
    }

    private func reap() {
        let state = state
        let program = program
        let identifier = identifier
        Thread.detachNewThread {
            var information = siginfo_t()
            // It stays a zombie until its end is recorded, so that no signal reaches another process.
            while waitid(P_PID, id_t(identifier), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
            state.with { state in
                kill(-identifier, SIGKILL)
                var status: Int32 = 0
                while waitpid(identifier, &status, 0) < 0, errno == EINTR {}
                let signal = status & 0x7F
                state.exitCode = signal == 0 ? status >> 8 & 0xFF : 128 + signal
                if [SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGSEGV].contains(signal) {
                    // This is the cause of the test's later failure.
                    let words = String(decoding: state.errors, as: UTF8.self)
                    FileHandle.standardError.write(Data("\(program) crashed (signal \(signal)): \(words)\n".utf8))
                }
            }
        }
    }

    // MARK: Starting

    private static func pipe() throws -> (read: Int32, write: Int32) {
        var ends: [Int32] = [0, 0]
        guard Glibc.pipe(&ends) == 0 else { throw Failure(description: "pipe: \(errno)") }
        return (ends[0], ends[1])
    }

    private static func spawn(
        _ arguments: [String],
        _ environment: [String: String],
        _ folder: String?,
        _ descriptors: [Int32]
    ) throws -> pid_t {
        // The descriptors are first moved away from the target numbers.
        let parked = descriptors.map { fcntl($0, F_DUPFD_CLOEXEC, 64) }
        defer { for descriptor in parked { close(descriptor) } }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (target, descriptor) in parked.enumerated() {
            posix_spawn_file_actions_adddup2(&actions, descriptor, Int32(target))
        }
        _ = SpawnExtensions.closeFrom(&actions, Int32(parked.count))
        if let folder { _ = SpawnExtensions.changeFolder(&actions, folder) }

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        var defaults = sigset_t()
        sigfillset(&defaults)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes,
            Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK)
        )

        var argumentPointers = arguments.map { strdup($0) } + [nil]
        var environmentPointers = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for pointer in argumentPointers + environmentPointers { free(pointer) } }
        var identifier: pid_t = 0
        let result = posix_spawn(
            &identifier,
            arguments[0],
            &actions,
            &attributes,
            &argumentPointers,
            &environmentPointers
        )
        guard result == 0 else {
            throw Failure(description: "\(arguments[0]) does not start: \(String(cString: strerror(result)))")
        }
        return identifier
    }
}

/// glibc's additions to posix_spawn(3), which Swift does not import.
private enum SpawnExtensions {
    private typealias CloseFrom = @convention(c) (UnsafeMutableRawPointer, Int32) -> Int32
    private typealias ChangeFolder = @convention(c) (UnsafeMutableRawPointer, UnsafePointer<CChar>) -> Int32

    /// No descriptor from `first` on reaches the child.
    static func closeFrom(_ actions: inout posix_spawn_file_actions_t, _ first: Int32) -> Int32 {
        let function = unsafeBitCast(find("posix_spawn_file_actions_addclosefrom_np"), to: CloseFrom.self)
        return function(&actions, first)
    }

    static func changeFolder(_ actions: inout posix_spawn_file_actions_t, _ folder: String) -> Int32 {
        let function = unsafeBitCast(find("posix_spawn_file_actions_addchdir_np"), to: ChangeFolder.self)
        return function(&actions, folder)
    }

    private static func find(_ name: String) -> UnsafeMutableRawPointer {
        guard let symbol = dlsym(nil, name) else { fatalError("glibc 2.34 or newer has \(name)") }
        return symbol
    }
}
