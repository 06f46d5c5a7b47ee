// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The servers of a Cluster, each with its slots.
final class ClusterNodes: SearchingNodes {
    private static let unknown = RedisFailure.connection("no server of the Cluster has told its table")
    /// Servers that one command may be sent to.
    static let hopsAtMost = 5

    private var table: ClusterTable?
    /// A table is asked for at most once a second.
    private var round = SearchRound(pause: 1_000_000_000)

    override func run(_ errand: RedisErrand) {
        guard let table else {
            seek()
            return round.isPromising ? wait(errand) : fail(errand, Self.unknown)
        }
        guard let server = table[ClusterSlot.of(errand.key)] else {
            seek()
            return fail(errand, .refused("CLUSTERDOWN"))
        }
        go(errand, to: server)
    }

    private func go(_ errand: RedisErrand, to server: RedisAddress, asking: Bool = false) {
        var errand = errand
        errand.hops += 1
        let preface = asking ? RedisCommand("ASKING") : nil
        let isSent = servers.link(to: server)?
            .take(errand.command, after: preface, by: errand.deadline) { [self, errand] in
                returned($0, errand, from: server)
            }
        guard isSent != true else { return }
        // Another server may have its slots.
        seek()
        fail(errand, .busy)
    }

    private func returned(_ result: RedisResult, _ errand: RedisErrand, from server: RedisAddress) {
        switch result {
        case .success(let reply):
            let slot = ClusterSlot.of(errand.key)
            guard let redirection = ClusterRedirection(reply, slot: slot, from: server) else { break }
            if let failure = follow(redirection, errand, slot) { errand.completion(.failure(failure)) }
            return
        case .failure(.connection), .failure(.refused("CLUSTERDOWN")): seek()
        case .failure: break
        }
        errand.completion(result)
    }

    /// - Returns: why the command is not sent to the other server; nil when it is.
    private func follow(_ redirection: ClusterRedirection, _ errand: RedisErrand, _ slot: Int) -> RedisFailure? {
        if case .moved(let server) = redirection {
            table?.move(slot, to: server)
            seek()
        }
        if isClosed { return .closed }
        if errand.hops >= Self.hopsAtMost { return .malformed("too many redirections") }
        if loop.now >= errand.deadline { return .timeout }
        switch redirection {
        case .moved(let server): go(errand, to: server)
        case .ask(let server): go(errand, to: server, asking: true)
        case .malformed: return .malformed("a redirection without an address")
        }
        return nil
    }

    // MARK: The table

    override func resetSearch() { round.reset() }

    override func seek() {
        guard !isClosed, let first = round.begin(addresses + (table?.nodes ?? []), now: loop.now) else { return }
        ask(first)
    }

    private func ask(_ first: RedisAddress?) {
        let era = era
        let question = RedisCommand("CLUSTER", Array("SLOTS".utf8))
        let deadline = loop.now &+ Self.questionTime
        var next = first
        while let server = next {
            let isAsked = servers.link(to: server)?
                .take(question, expecting: .clusterTable, by: deadline) { [self] result in
                    if era == self.era { told(try? result.get(), by: server) }
                }
            if isAsked == true { return }
            next = round.next()
        }
        endWait(Self.unknown)
    }

    private func told(_ reply: RedisReply?, by server: RedisAddress) {
        guard let table = reply.flatMap({ ClusterTable($0, from: server) }) else { return ask(round.next()) }
        round.succeed()
        self.table = table
        servers.removeIdle(except: Set(table.nodes + addresses))
        endWait(nil)
    }
}
