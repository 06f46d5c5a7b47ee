// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
package import IOCore
import ServerTrust

/// Ends commands that are running, for a program that stops.
package final class CommandCancellation: Sendable {
    /// Readable from then on.
    fileprivate let descriptor: Int32

    package init() { descriptor = pinproxy_eventfd() }

    deinit { if descriptor >= 0 { close(descriptor) } }

    package func cancel() {
        var one: UInt64 = 1
        if descriptor >= 0 { _ = pinproxy_write_file(descriptor, &one, 8) }
    }
}

/// One run of a program for what it prints. It blocks: for a thread of its own, never on a loop.
///
/// The program is started without a shell, in a process group of its own, with the null device as standard input and error, and with
/// no other descriptor of this process. Its group is killed when it has ended, or when its time or the room for its output is over.
/// Its output is given to nobody but the caller.
package struct CommandRun: Sendable {
    package struct Limits: Sendable {
        package var time = TimeSpan.seconds(30)
        /// Bytes of its output.
        package var output = CredentialOutput.mostBytes

        package init() {}
    }

    /// The program by its absolute path, and its arguments.
    package let arguments: [String]
    /// The whole environment as `NAME=value`.
    package let environment: [String]
    package let limits: Limits
    private let cancellation: CommandCancellation?

    package init(
        _ arguments: [String],
        environment: [String],
        limits: Limits = Limits(),
        cancellation: CommandCancellation? = nil
    ) {
        self.arguments = arguments
        self.environment = environment
        self.limits = limits
        self.cancellation = cancellation
    }

    /// The environment of this process without some of its variables.
    package static func environment(without names: Set<String>) -> [String] {
        var found: [String] = []
        var cursor = environ
        while let variable = cursor.pointee {
            let text = String(cString: variable)
            let name = text.utf8.prefix { $0 != UInt8(ascii: "=") }
            if !names.contains(String(decoding: Array(name), as: UTF8.self)) { found.append(text) }
            cursor += 1
        }
        return found
    }

    /// Runs the program to its end.
    ///
    /// - Parameter hasDescriptor: whether the system may give a descriptor of the process. Kernels before 5.3 do not, nor do sandboxes
    ///   that know none of the call.
    /// - Returns: its output, if it has ended with exit code 0.
    package func output(hasDescriptor: Bool = true) throws(CredentialFault) -> [UInt8] {
        try Self.check(arguments[0])
        var ends: [Int32] = [-1, -1]
        let code = pinproxy_pipe(&ends)
        guard code == 0 else { throw Self.failure("pipe", -code) }
        defer { close(ends[0]) }
        let started = Result<pid_t, CredentialFault> { () throws(CredentialFault) in try start(standardOutput: ends[1])
        }
        close(ends[1])
        let process = try started.get()
        let watch = hasDescriptor ? pinproxy_process_descriptor(process) : -1
        defer { if watch >= 0 { close(watch) } }
        var bytes: [UInt8] = []
        let fault = collect(&bytes, of: process, from: ends[0], watch)
        // The group has the number of the program, which is its own until it is collected below.
        kill(-process, SIGKILL)
        kill(process, SIGKILL)
        let status = Self.collect(process)
        if let fault {
            bytes.wipe()
            throw fault
        }
        // The layout that WIFEXITED and similar macros read (wait(2)).
        guard status == 0 else {
            bytes.wipe()
            throw CredentialFault(.source, Self.end(status))
        }
        return bytes
    }

    /// The status of the ended program; nil where the system has collected it, because this process was started with SIGCHLD ignored.
    private static func collect(_ process: pid_t) -> Int32? {
        var status: Int32 = 0
        var isCollected = false
        while true {
            if waitpid(process, &status, 0) >= 0 {
                isCollected = true
                break
            }
            guard errno == EINTR else { break }
        }
        // As the first process of a container, this one is the parent of what the program has left behind.
        var rest: Int32 = 0
        for _ in 0..<100 {
            let found = waitpid(-process, &rest, WNOHANG)
            if found < 0, errno != EINTR { break }
            if found == 0 { usleep(10_000) }
        }
        return isCollected ? status : nil
    }

    private static func end(_ status: Int32?) -> String {
        guard let status else { return "nobody knows how the command ended: pinproxy was started with SIGCHLD ignored" }
        let signal = status & 0x7F
        return signal == 0
            ? "the command ended with exit code \(status >> 8 & 0xFF)" : "the command was ended by signal \(signal)"
    }

    // MARK: The program

    /// Whoever can write to the program's file, or is its owner, decides what is sent as a credential.
    private static func check(_ path: String) throws(CredentialFault) {
        var status = stat()
        guard stat(path, &status) == 0 else {
            throw CredentialFault(.source, "the command cannot be run: \(String(cString: strerror(errno)))")
        }
        guard status.st_mode & S_IFMT == S_IFREG else { throw CredentialFault(.source, "the command is no file") }
        guard status.st_mode & (S_IWGRP | S_IWOTH) == 0 else {
            throw CredentialFault(.source, "users besides its owner may write to the command: chmod go-w \(path)")
        }
        guard status.st_uid == 0 || status.st_uid == geteuid() else {
            throw CredentialFault(.source, "the command belongs to another user than root and that of pinproxy")
        }
    }

    private func start(standardOutput: Int32) throws(CredentialFault) -> pid_t {
        let words = CStrings(arguments)
        let variables = CStrings(environment)
        var process: pid_t = -ETXTBSY
        // Whoever has just written the file may have it open still, or a program that it is starting at this moment.
        for attempt in 0..<5 where process == -ETXTBSY {
            if attempt > 0 { usleep(20_000) }
            process = withExtendedLifetime((words, variables)) {
                pinproxy_start_command(words.pointers, variables.pointers, standardOutput)
            }
        }
        guard process > 0 else {
            throw CredentialFault(.source, "the command cannot be run: \(String(cString: strerror(-process)))")
        }
        return process
    }

    /// Reads until the program has ended: its children may hold the pipe open for as long as they like.
    private func collect(_ bytes: inout [UInt8], of process: pid_t, from pipe: Int32, _ watch: Int32)
        -> CredentialFault?
    {
        let end = Clock.monotonic.addingReportingOverflow(limits.time.nanoseconds).partialValue
        var hasEnd = false
        while true {
            let now = Clock.monotonic
            guard now < end else {
                return CredentialFault(
                    .timeout,
                    "the command took longer than \(limits.time.nanoseconds / 1_000_000_000) s"
                )
            }
            let left = Int32(clamping: (end - now) / 1_000_000 + 1)
            var polled = [
                pollfd(fd: hasEnd ? -1 : pipe, events: Int16(POLLIN), revents: 0),
                pollfd(fd: watch, events: Int16(POLLIN), revents: 0),
                pollfd(fd: cancellation?.descriptor ?? -1, events: Int16(POLLIN), revents: 0),
            ]
            guard poll(&polled, 3, watch < 0 ? min(left, Self.lookEvery) : left) >= 0 || errno == EINTR else {
                return Self.failure("poll", errno)
            }
            guard polled[2].revents == 0 else { return CredentialFault(.source, "the program is stopping") }
            // Looked at first, so that what was printed before the end is read.
            let isOver = watch < 0 ? Self.hasEnded(process) : polled[1].revents != 0
            if !hasEnd {
                switch read(from: pipe, into: &bytes) {
                case .more: break
                case .end: hasEnd = true
                case .failed(let fault): return fault
                }
            }
            if isOver { return nil }
        }
    }

    /// Milliseconds between two looks at a process of which there is no descriptor.
    private static let lookEvery: Int32 = 20

    /// Whether the program has ended. It stays to be collected, so that its group keeps its number.
    private static func hasEnded(_ process: pid_t) -> Bool {
        var information = siginfo_t()
        guard waitid(P_PID, id_t(process), &information, WEXITED | WNOHANG | WNOWAIT) == 0 else {
            return errno != EINTR
        }
        return information.si_signo == SIGCHLD
    }

    private enum Reading {
        case more
        case end
        case failed(CredentialFault)
    }

    private func read(from pipe: Int32, into bytes: inout [UInt8]) -> Reading {
        var room = [UInt8](repeating: 0, count: 4096)
        defer { room.wipe() }
        while true {
            let count = Glibc.read(pipe, &room, room.count)
            if count > 0 {
                guard bytes.count + count <= limits.output else {
                    return .failed(CredentialFault(.output, "the command printed more than \(limits.output >> 10) KB"))
                }
                bytes += room[..<count]
            } else if count == 0 {
                return .end
            } else if errno == EAGAIN {
                return .more
            } else if errno != EINTR {
                return .failed(Self.failure("read", errno))
            }
        }
    }

    private static func failure(_ call: StaticString, _ code: Int32) -> CredentialFault {
        CredentialFault(.source, "\(IOFailure(code: code, during: call))")
    }
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
