// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The primary that Sentinels name.
final class SentinelNodes: SearchingNodes {
    private static let unknown = RedisFailure.connection("no Sentinel has named a primary")
    private let name: [UInt8]
    private var search: SentinelSearch
    private var sentinels: LinkPool!

    init(_ plan: RedisPlan, name: [UInt8], login: RedisLogin?, loop: EventLoop, dial: @escaping RedisDial) {
        self.name = name
        search = SentinelSearch(plan.addresses.map(\.normalForm))
        super.init(plan, loop: loop, dial: dial)
        sentinels = LinkPool(login, owner: self, loop: loop, dial: dial)
    }

    override func run(_ errand: RedisErrand) {
        if search.isDue(now: loop.now) { seek() }
        guard let primary = search.primary else {
            return search.isPromising ? wait(errand) : fail(errand, Self.unknown)
        }
        let isSent = servers.link(to: primary)?.take(errand.command, by: errand.deadline) { [self] result in
            if case .failure(.refused("READONLY")) = result {
                search.doubt(primary)
                seek()
            }
            errand.completion(result)
        }
        guard isSent != true else { return }
        // It may be dead without an end of its connection: the Sentinels know whether another one has taken its place.
        seek()
        fail(errand, .busy)
    }

    override func connectionEnded(to address: RedisAddress) {
        search.doubt(address)
        super.connectionEnded(to: address)
    }

    override var pools: [LinkPool] { [servers, sentinels] }

    override func resetSearch() { search.reset() }

    override func seek() {
        guard !isClosed, let step = search.begin(now: loop.now) else { return }
        take(step)
    }

    private func take(_ first: SentinelSearch.Step) {
        var step = first
        while true {
            switch step {
            case .ask(let sentinel):
                let question = RedisCommand("SENTINEL", Array("get-master-addr-by-name".utf8), name)
                let isAsked = ask(sentinels.link(to: sentinel), question, .primaryAddress) { nodes, reply in
                    nodes.search.named(reply.flatMap(SentinelReply.address))
                }
                if isAsked { return }
                step = search.named(nil)
            case .check(let server):
                let isAsked = ask(servers.link(to: server), RedisCommand("ROLE"), .primary) { nodes, reply in
                    nodes.search.checked(reply.map(SentinelReply.isPrimary))
                }
                if isAsked { return }
                step = search.checked(nil)
            case .use(let server):
                servers.removeIdle(except: [server])
                return endWait(nil)
            case .giveUp:
                return endWait(Self.unknown)
            }
        }
    }

    /// - Parameter heard: gets the reply, nil without one, and returns the next step.
    /// - Returns: whether the question was sent.
    private func ask(
        _ link: RedisServerLink?,
        _ question: RedisCommand,
        _ expectation: ServerOutcome.Expectation,
        _ heard: @escaping (SentinelNodes, RedisReply?) -> SentinelSearch.Step
    ) -> Bool {
        let era = era
        let deadline = loop.now &+ Self.questionTime
        return link?.take(question, expecting: expectation, by: deadline) { [self] result in
            if era == self.era { take(heard(self, try? result.get())) }
        } ?? false
    }
}
