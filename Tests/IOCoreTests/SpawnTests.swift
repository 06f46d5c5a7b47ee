// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import TestSupport
import Testing

@Suite("The descriptors of a program that is started", .onOwnThreads)
struct SpawnTests {
    /// A descriptor that exec does not close, with this number or a higher one.
    private static func open(from lowest: Int32) -> Int32 {
        let descriptor = Glibc.open("/dev/null", O_RDONLY)
        defer { close(descriptor) }
        return fcntl(descriptor, F_DUPFD, lowest)
    }

    /// The numbers that are open in a program.
    private static func descriptors(keeping kept: [Int32]) throws -> [Int32] {
        var actions = posix_spawn_file_actions_t()
        #expect(posix_spawn_file_actions_init(&actions) == 0)
        defer { posix_spawn_file_actions_destroy(&actions) }
        var ends: [Int32] = [-1, -1]
        #expect(pinproxy_pipe(&ends) == 0)
        defer { close(ends[0]) }
        #expect(posix_spawn_file_actions_adddup2(&actions, ends[1], 1) == 0)
        #expect(pinproxy_spawn_keeps_only(&actions, kept, kept.count) == 0)
        // `ls` lists those of the shell, which has it wait.
        let words = [strdup("/bin/sh"), strdup("-c"), strdup("ls /proc/$$/fd; :"), nil]
        defer { for word in words { free(word) } }
        var process = pid_t()
        let code = posix_spawn(&process, "/bin/sh", &actions, nil, words, environ)
        close(ends[1])
        #expect(code == 0)
        guard code == 0 else { return [] }
        var output: [UInt8] = []
        try Patience.poll(for: "the program to end") {
            var piece = [UInt8](repeating: 0, count: 4096)
            let count = read(ends[0], &piece, piece.count)
            output += piece.prefix(max(0, count))
            return count == 0 ? true : nil
        }
        var status: Int32 = -1
        #expect(waitpid(process, &status, 0) == process && status == 0)
        return String(decoding: output, as: UTF8.self).split(separator: "\n").compactMap { Int32($0) }.sorted()
    }

    @Test("a program gets the descriptors meant for it, and no others")
    func kept() throws {
        // Below, between and above those that are kept, beside what other tests have open.
        let opened = [100, 200, 300, 400, 500].map { Self.open(from: $0) }
        defer { for descriptor in opened { close(descriptor) } }
        #expect(opened.allSatisfy { fcntl($0, F_GETFD) == 0 })
        let (first, second) = (opened[1], opened[3])
        #expect(try Self.descriptors(keeping: [first, second]) == [0, 1, 2, first, second])
        #expect(try Self.descriptors(keeping: [0, 1, 2, second]) == [0, 1, 2, second])
        #expect(try Self.descriptors(keeping: []) == [0, 1, 2])
    }

    @Test("a descriptor at the limit of open files, or above it, is kept")
    func atLimit() async {
        // The limit is the whole process's.
        await #expect(processExitsWith: .success) {
            let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
            var limit = rlimit()
            getrlimit(files, &limit)
            limit.rlim_cur = 300
            setrlimit(files, &limit)
            let last = SpawnTests.open(from: 299)
            let atLimit = try SpawnTests.descriptors(keeping: [last])
            #expect(atLimit == [0, 1, 2, last])
            limit.rlim_cur = 200
            setrlimit(files, &limit)
            let aboveLimit = try SpawnTests.descriptors(keeping: [last])
            #expect(aboveLimit == [0, 1, 2, last])
        }
    }
}
