// SPDX-License-Identifier: Apache-2.0
import Foundation
import IOCore
import TestSupport
import Testing

@testable import SessionCore

@Suite("A name whose addresses are checked", .onOwnThreads)
struct NameCheckTests {
    private static let first: UInt32 = 0xC000_0201
    private static let second: UInt32 = 0xC000_0202

    private static func address(_ bytes: UInt32) -> SocketAddress { SocketAddress(ipv4: bytes, port: 0) }

    /// A resolver, whose `/etc/hosts` is empty and never current for long.
    private final class Place {
        let server: NameServer
        let names: NameResolver
        private let loop: EventLoop
        private let folder: TemporaryFolder

        init(_ answers: @escaping @Sendable (_ count: Int) -> NameServer.Response) throws {
            server = try NameServer { _, count in answers(count) }
            folder = try TemporaryFolder()
            try folder.write("", as: "hosts")
            loop = try EventLoop()
            var configuration = SessionConfiguration()
            configuration.nameServers = server.text
            let hosts = HostsReader(path: "\(folder.path)/hosts", lifetime: .milliseconds(1))
            names = NameResolver(loop: loop, configuration, hosts: hosts)
        }

        deinit { names.close() }

        func run(until what: String, _ isSo: () -> Bool) throws {
            let deadline = Date(timeIntervalSinceNow: Patience.seconds)
            while !loop.run(until: isSo, atMost: .milliseconds(20)) {
                if Date() > deadline { throw TimedOut(what) }
            }
        }

        func ask(isCheck: Bool = false) throws -> NameAnswer {
            var answer = isCheck ? names.checkedAnswer(for: "a.test") : names.answer(for: "a.test")
            if answer == nil { _ = names.wait(for: "a.test", isCheck: isCheck) { answer = $0 } }
            try run(until: "the addresses") { answer != nil }
            return answer!
        }
    }

    @Test("a check asks anew, and what it finds is known from then on")
    func renewal() throws {
        let place = try Place { .address($0 == 0 ? Self.first : Self.second, lifetime: 300) }
        #expect(try place.ask().get() == [Self.address(Self.first)])
        #expect(try place.ask().get() == [Self.address(Self.first)])
        #expect(try place.ask(isCheck: true).get() == [Self.address(Self.second)])
        #expect(try place.ask().get() == [Self.address(Self.second)])
        // Within a second there is no other check.
        #expect(try place.ask(isCheck: true).get() == [Self.address(Self.second)])
        #expect(place.server.questions.count == 2)
    }

    @Test("a check that fails leaves the known result, and is not repeated at once")
    func failure() throws {
        let place = try Place { $0 == 0 ? .address(Self.first, lifetime: 300) : .noSuchName }
        #expect(try place.ask().get() == [Self.address(Self.first)])
        for _ in 0..<3 {
            guard case .failure = try place.ask(isCheck: true) else { throw TimedOut("a failure") }
        }
        #expect(try place.ask().get() == [Self.address(Self.first)])
        #expect(place.server.questions.count == 2)
    }

    @Test("a request for the known result does not wait for a check")
    func silence() throws {
        let place = try Place { $0 == 0 ? .address(Self.first, lifetime: 300) : .silence }
        #expect(try place.ask().get() == [Self.address(Self.first)])
        let check = place.names.wait(for: "a.test", isCheck: true) { _ in Issue.record("nothing has responded") }
        try place.run(until: "the question of the check") { place.server.questions.count > 1 }
        #expect(try place.ask().get() == [Self.address(Self.first)])
        place.names.withdraw(check)
    }

    @Test("a check keeps more addresses than a dial tries")
    func manyAddresses() throws {
        let place = try Place { _ in .addressesOverTCP(ipv4: 140, ipv6: 60) }
        // The addresses of one family alone count when the response for the other is late.
        #expect((16...32).contains(try place.ask().get().count))
        #expect(try place.ask(isCheck: true).get().count > 32)
        #expect((16...32).contains(try place.ask().get().count))
    }
}
