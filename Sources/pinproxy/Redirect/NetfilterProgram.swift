// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore

/// `nft`, the program that changes the rules of nftables.
enum NetfilterProgram {
    /// The names to try: the PATH of some users lacks the folders of administrators.
    private static let places = ["nft", "/usr/sbin/nft", "/sbin/nft"]

    /// Gives it a text, which it takes as a whole or not at all.
    static func apply(_ text: String) throws(CommandFailure) {
        // A program that is started with SIGCHLD ignored has children of which nothing is known.
        signal(SIGCHLD, SIG_DFL)
        // It may end without reading, for want of a library: its status says so.
        signal(SIGPIPE, SIG_IGN)
        let input = try makePipe()
        let messages: [Int32]
        do throws(CommandFailure) {
            messages = try makePipe()
        } catch {
            for descriptor in input { close(descriptor) }
            throw error
        }
        let started = start(input: input[0], messages: messages[1])
        close(input[0])
        close(messages[1])
        defer { close(messages[0]) }
        guard case .success(let process) = started else {
            close(input[1])
            throw notStarted(started)
        }
        // A long list of ports is more than a pipe holds. nft reads all of it before it says anything.
        DescriptorOutput.write(text, to: input[1])
        close(input[1])
        let said = read(messages[0])
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        guard status != 0 else { return }
        throw CommandFailure(
            .failed,
            "nft has refused the rules" + (said.isEmpty ? "" : ": \(said)"),
            remedy: said.contains("Operation not permitted")
                ? "run it as root, or with the capability CAP_NET_ADMIN in the network namespace of the pod" : ""
        )
    }

    private static func makePipe() throws(CommandFailure) -> [Int32] {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else {
            throw CommandFailure(.internal, "no pipe could be made: \(String(cString: strerror(errno)))")
        }
        for descriptor in ends { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        return ends
    }

    private struct SpawnFailure: Error {
        let code: Int32
    }

    private static func start(input: Int32, messages: Int32) -> Result<pid_t, SpawnFailure> {
        var actions = posix_spawn_file_actions_t()
        guard posix_spawn_file_actions_init(&actions) == 0 else { return .failure(SpawnFailure(code: ENOMEM)) }
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input, 0)
        posix_spawn_file_actions_adddup2(&actions, messages, 1)
        posix_spawn_file_actions_adddup2(&actions, messages, 2)
        var code = ENOENT
        for place in places {
            let words: [UnsafeMutablePointer<CChar>?] = [strdup(place), strdup("-f"), strdup("-"), nil]
            defer { for word in words { free(word) } }
            var process = pid_t()
            code = posix_spawnp(&process, place, &actions, nil, words, environ)
            if code == 0 { return .success(process) }
            if code != ENOENT { break }
        }
        return .failure(SpawnFailure(code: code))
    }

    private static func notStarted(_ result: Result<pid_t, SpawnFailure>) -> CommandFailure {
        guard case .failure(let failure) = result, failure.code != ENOENT else {
            return CommandFailure(
                .failed,
                "nft is not installed",
                remedy: "install nftables, or give the text that is printed without --apply to nft -f elsewhere"
            )
        }
        return CommandFailure(.failed, "nft could not be run: \(String(cString: strerror(failure.code)))")
    }

    /// The first lines of what it says.
    private static func read(_ descriptor: Int32) -> String {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = Glibc.read(descriptor, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            if bytes.count < piece.count { bytes += piece[..<count] }
        }
        let lines = String(decoding: bytes.prefix(1000), as: UTF8.self).split(separator: "\n")
        return TextLayout.printable(lines.joined(separator: "; "))
    }
}
