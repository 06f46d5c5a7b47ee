// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import IOCore
import TestSupport
import Testing

@testable import ProxyCore

@Suite("A command that prints a credential", .waitingOnOwnThreads)
struct CommandRunTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func script(_ body: String, mode: UInt32 = 0o700) throws -> String {
        try folder.writeProgram("#!/bin/sh\n\(body)\n", as: "command-\(UInt64.random(in: 0 ... .max))", mode: mode)
    }

    private func file(_ name: String) -> String { "\(folder.path)/\(name)" }

    private func run(_ arguments: [String], _ environment: [String] = ["PATH=/usr/bin:/bin"], seconds: Int = 30)
        -> Result<
            String, CredentialFault
        >
    {
        var limits = CommandRun.Limits()
        limits.time = .seconds(seconds)
        do throws(CredentialFault) {
            let bytes = try CommandRun(arguments, environment: environment, limits: limits).output()
            return .success(String(decoding: bytes, as: UTF8.self))
        } catch {
            return .failure(error)
        }
    }

    private func fault(_ result: Result<String, CredentialFault>) -> CredentialFault {
        if case .failure(let fault) = result { fault } else { CredentialFault(.output, "\(result)") }
    }

    /// Whether a process with that number is there and no zombie.
    private func isAlive(_ process: String) -> Bool {
        guard let status = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8) else { return false }
        return !status.contains(") Z ")
    }

    @Test("a command's output is returned, without a shell")
    func output() throws {
        let path = try script("printf '%s|' \"$@\"")
        #expect(run([path, "a b", "$HOME", "*"]) == .success("a b|$HOME|*|"))
        #expect(run([path]) == .success("|"))
    }

    @Test("without a descriptor of the process its end is seen, too")
    func withoutDescriptor() throws {
        // The pipe ends before the program does, which is not killed for that.
        let path = try script("echo value-of-8; exec >&-; sleep 0.2; exit 0")
        let bytes = try CommandRun([path], environment: ["PATH=/usr/bin:/bin"]).output(hasDescriptor: false)
        #expect(String(decoding: bytes, as: UTF8.self) == "value-of-8\n")
        // A child that holds the pipe open does not delay the end.
        let parent = try script("sleep 1000 & echo value-of-9")
        let others = try CommandRun([parent], environment: ["PATH=/usr/bin:/bin"]).output(hasDescriptor: false)
        #expect(String(decoding: others, as: UTF8.self) == "value-of-9\n")
        let failing = try script("echo value-of-8; exit 3")
        #expect(throws: CredentialFault.self) {
            try CommandRun([failing], environment: []).output(hasDescriptor: false)
        }
    }

    @Test("a command has its environment, no input, and no other descriptor")
    func surroundings() throws {
        let path = try script(
            "echo \"$KEY\"; cat; ls -l /proc/self/fd | grep -c /; echo note >&2; cut -d' ' -f5 /proc/$$/stat; echo $$"
        )
        let other = open("/dev/zero", O_RDONLY)
        defer { close(other) }
        let printed = try run([path], ["KEY=value", "PATH=/usr/bin:/bin"]).get()
        let lines = printed.split(separator: "\n").map(String.init)
        try #require(lines.count == 4, "\(printed)")
        // Standard input and error, and what ls itself has open; standard output is a pipe.
        #expect(lines[0] == "value" && lines[1] == "3" && lines[2] == lines[3], "\(printed)")
    }

    @Test("variables of the environment can be left out")
    func environment() {
        setenv("PINPROXY_TEST_SECRET", "a=b", 1)
        defer { unsetenv("PINPROXY_TEST_SECRET") }
        #expect(CommandRun.environment(without: []).contains("PINPROXY_TEST_SECRET=a=b"))
        #expect(
            !CommandRun.environment(without: ["PINPROXY_TEST_SECRET"]).contains { $0.contains("PINPROXY_TEST_SECRET") }
        )
    }

    @Test("an exit code or a signal is reported, without output")
    func failures() throws {
        #expect(
            fault(run([try script("echo s3cr3t-value; exit 3")]))
                == CredentialFault(.source, "the command ended with exit code 3")
        )
        #expect(
            fault(run([try script("echo s3cr3t-value; kill -9 $$")])).message == "the command was ended by signal 9"
        )
        #expect(fault(run([file("missing")])).message.contains("No such file"))
        let noProgram = try folder.write("no program", as: "text")
        chmod(noProgram, 0o700)
        #expect(fault(run([noProgram])).code == .source)
        chmod(noProgram, 0o600)
        #expect(fault(run([noProgram])).message.contains("ermission"))
        #expect(fault(run(["/tmp"])).message == "the command is no file")
    }

    @Test("a hanging command is killed at its limit", .timeLimit(.minutes(5)))
    func hangs() throws {
        let pid = file("pid")
        let path = try script("trap '' TERM INT HUP; echo $$ >\(pid); while :; do sleep 100; done")
        let start = Clock.monotonic
        #expect(fault(run([path], seconds: 1)) == CredentialFault(.timeout, "the command took longer than 1 s"))
        #expect(Clock.monotonic - start < 20_000_000_000)
        let number = try String(contentsOfFile: pid, encoding: .utf8).trimmingCharacters(in: .newlines)
        #expect(!isAlive(number))
    }

    @Test("a child that holds the pipe open does not delay the end", .timeLimit(.minutes(5)))
    func children() throws {
        let pid = file("child")
        let path = try script("sleep 1000 & echo $! >\(pid); echo token-12345678")
        #expect(run([path]) == .success("token-12345678\n"))
        let number = try String(contentsOfFile: pid, encoding: .utf8).trimmingCharacters(in: .newlines)
        // The signal has been sent; the system takes a moment to end the process.
        let deadline = Clock.monotonic + 10_000_000_000
        while isAlive(number), Clock.monotonic < deadline { usleep(1000) }
        #expect(!isAlive(number))
    }

    @Test("a megabyte of output is refused at once", .timeLimit(.minutes(5)))
    func megabyte() throws {
        let path = try script("head -c 1048576 /dev/zero | tr '\\0' a; sleep 1000")
        #expect(fault(run([path])) == CredentialFault(.output, "the command printed more than 64 KB"))
        let most = try script("head -c 65536 /dev/zero | tr '\\0' a")
        #expect(try run([most]).get().utf8.count == 65536)
    }

    @Test("a command that prints too fast waits")
    func blocking() throws {
        // A descriptor that does not block would give an error here, and a part of the output.
        let path = try script("for n in 1 2 3 4 5 6 7 8; do head -c 8192 /dev/zero | tr '\\0' a || exit 1; done")
        for _ in 0..<20 { #expect(try run([path]).get().utf8.count == 65_536) }
    }

    @Test("output before the end is read, also when it closes early")
    func order() throws {
        #expect(run([try script("printf one; sleep 0.1; printf two")]) == .success("onetwo"))
        #expect(run([try script("printf one; exec >&-; sleep 0.1; exit 0")]) == .success("one"))
        #expect(fault(run([try script("printf one; exec >&-; sleep 0.1; exit 4")])).message.contains("code 4"))
    }

    @Test("a file that others may write or own is not run")
    func permissions() throws {
        for mode: mode_t in [0o720, 0o702, 0o722] {
            let path = try script("echo token-12345678", mode: mode)
            #expect(fault(run([path])).message.contains("chmod go-w"), "\(mode)")
        }
        guard geteuid() == 0 else { return }
        let path = try script("echo token-12345678")
        chown(path, 65_534, 0)
        #expect(fault(run([path])).message.contains("another user"))
    }
}
