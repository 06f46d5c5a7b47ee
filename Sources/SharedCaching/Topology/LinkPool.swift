// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The links to servers with the same login, one for each server, up to a limit.
final class LinkPool {
    static let connectionsAtMost = 128
    /// A link makes room for another one when it was not used for so long, in nanoseconds: servers that send a client from one to
    /// the other cannot make it dial without end.
    static let quietFor: UInt64 = 1_000_000_000

    private let login: RedisLogin?
    private unowned let owner: RedisNodes
    private let loop: EventLoop
    private var dial: RedisDial
    private var links: [RedisAddress: RedisServerLink] = [:]

    init(_ login: RedisLogin?, owner: RedisNodes, loop: EventLoop, dial: @escaping RedisDial) {
        self.login = login
        self.owner = owner
        self.loop = loop
        self.dial = dial
    }

    var count: Int { links.count }

    /// The link to a server; nil when there are too many, and all of them in use.
    func link(to address: RedisAddress) -> RedisServerLink? {
        if let link = links[address] { return link }
        if links.count >= Self.connectionsAtMost {
            let now = loop.now
            let quiet = links.values.filter { $0.isIdle && now &- $0.lastUsed >= Self.quietFor }
            guard let oldest = quiet.min(by: { $0.lastUsed < $1.lastUsed }) else { return nil }
            remove(oldest)
        }
        let link = RedisServerLink(address, login: login, owner: owner, loop: loop, dial: dial)
        links[address] = link
        return link
    }

    /// Closes the idle links to servers that are not needed any more.
    func removeIdle(except needed: Set<RedisAddress>) {
        let unused = links.values.filter { $0.isIdle && !needed.contains($0.address) }
        for link in unused { remove(link) }
    }

    private func remove(_ link: RedisServerLink) {
        links[link.address] = nil
        link.close()
        owner.noteGone(link.address)
    }

    /// Takes all links out, for the caller to close; the next ones are dialled by `dial`, if it is not nil.
    func takeAll(dialling dial: RedisDial?) -> [RedisServerLink] {
        if let dial { self.dial = dial }
        defer { links = [:] }
        return Array(links.values)
    }
}
