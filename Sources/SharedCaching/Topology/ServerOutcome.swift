// SPDX-License-Identifier: Apache-2.0
/// The result of a command as its sender gets it, and what it says about the server.
struct ServerOutcome {
    enum Verdict: Hashable {
        case works
        /// The server works, but does not do what this command asks for.
        case limited(String)
        /// The server is of no use, by its own words or by what it sent.
        case refuses(String)
        case late
        /// The connection has ended, which is one failure for all of its commands.
        case lost
        /// Nothing was sent, or this side has ended it.
        case nothing

        /// Whether the server has done something.
        var isReply: Bool {
            switch self {
            case .works, .limited: true
            case .refuses, .late, .lost, .nothing: false
            }
        }
    }

    /// The reply that a question has to have.
    enum Expectation {
        case anything
        /// ROLE's of a primary.
        case primary
        /// That of a Sentinel that knows the name.
        case primaryAddress
        /// CLUSTER SLOTS' that can be used.
        case clusterTable
    }

    let result: RedisResult
    let verdict: Verdict

    init(_ result: RedisResult, _ expectation: Expectation, from server: RedisAddress) {
        if case .success(.error(let text)) = result, let (word, verdict) = Self.refusal(text) {
            self.result = .failure(.refused(word))
            self.verdict = verdict
            return
        }
        self.result = result
        switch result {
        case .success(let reply): verdict = Self.expected(reply, expectation, server)
        case .failure(.timeout): verdict = .late
        case .failure(.connection): verdict = .lost
        case .failure(.busy), .failure(.closed): verdict = .nothing
        case .failure(let failure): verdict = .refuses(Self.reason(failure))
        }
    }

    private static func expected(
        _ reply: RedisReply,
        _ expectation: Expectation,
        _ server: RedisAddress
    ) -> Verdict {
        switch expectation {
        case .anything: .works
        case .primary: SentinelReply.isPrimary(reply) ? .works : .limited("replica")
        case .primaryAddress: SentinelReply.address(reply) != nil ? .works : .limited("unknown name")
        case .clusterTable: ClusterTable(reply, from: server) != nil ? .works : .limited("no cluster")
        }
    }

    /// Errors by their first word. The words that are told are those of this program: a server cannot write in its log.
    private static func refusal(_ text: [UInt8]) -> (word: String, Verdict)? {
        let isFull = text.starts(with: "ERR max number of clients reached".utf8)
        let first = text.prefix(16).prefix { $0 != UInt8(ascii: " ") }
        guard let word = isFull ? "MAXCLIENTS" : knownWord(String(decoding: first, as: UTF8.self)) else { return nil }
        if limits.contains(word) { return (word, .limited(word)) }
        // The keys of a command are on their way to another server: the server works.
        return (word, word == "TRYAGAIN" ? .works : .refuses(word))
    }

    /// What concerns some commands alone, as writes, or those that the user may not send.
    private static let limits = ["OOM", "READONLY", "MISCONF", "NOREPLICAS", "NOPERM"]
    private static let failures = [
        "LOADING", "MASTERDOWN", "NOAUTH", "WRONGPASS", "CLUSTERDOWN", "DENIED", "TRYAGAIN", "MAXCLIENTS",
    ]

    static func isAboutSome(_ reason: String) -> Bool { limits.contains(reason) }

    private static func knownWord(_ word: String) -> String? { (limits + failures).first { $0 == word } }

    /// The reason why a server is of no use, for the log.
    static func reason(_ failure: RedisFailure) -> String {
        switch failure {
        case .timeout: "timeout"
        case .connection(let text): String(text.prefix(200))
        case .malformed: "malformed reply"
        case .refused(let word): knownWord(word) ?? "refused"
        case .busy: "busy"
        case .closed: "closed"
        }
    }
}
