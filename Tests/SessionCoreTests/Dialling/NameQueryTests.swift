// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import IOCore
import TestSupport
import Testing

@testable import SessionCore

/// c-ares as `names.c` asks it, without a loop: how much of a response it hands over.
@Suite("Which addresses of a name server's response are used", .serialized, .earlyOnOwnThreads)
struct NameQueryTests {
    /// What c-ares has handed over, by family. Belongs to the test's thread.
    private final class Responses {
        var counts: [Int32: Int] = [:]
        var first: [Int32: SocketAddress] = [:]
        var lifetimes: Set<Int32> = []
        var results: [Int32: pinproxy_name_result] = [:]
        var descriptors: [Int32: Int16] = [:]

        static func of(_ owner: UnsafeMutableRawPointer?) -> Responses {
            Unmanaged<Responses>.fromOpaque(owner!).takeUnretainedValue()
        }
    }

    private func ask(_ name: String, of server: NameServer) throws -> Responses {
        let responses = Responses()
        var callbacks = pinproxy_name_callbacks(
            may_use: { _, _ in true },
            wait: { owner, descriptor, readable, writable in
                let events = (readable != 0 ? Int16(POLLIN) : 0) | (writable != 0 ? Int16(POLLOUT) : 0)
                Responses.of(owner).descriptors[descriptor] = events == 0 ? nil : events
            },
            address: { owner, address, length, lifetime in
                let responses = Responses.of(owner)
                let family = Int32(address!.pointee.sa_family)
                responses.counts[family, default: 0] += 1
                responses.lifetimes.insert(lifetime)
                if responses.first[family] == nil { responses.first[family] = SocketAddress(address!, length: length) }
            },
            end: { owner, family, result, _ in Responses.of(owner).results[family] = result }
        )
        let owner = Unmanaged.passUnretained(responses).toOpaque()
        let lookup = try #require(pinproxy_name_create(server.text, &callbacks, owner))
        defer { pinproxy_name_free(lookup) }
        pinproxy_name_ask(lookup, name)
        return try Patience.poll(for: "the responses for \(name)", every: 0) {
            var places = responses.descriptors.map { pollfd(fd: $0.key, events: $0.value, revents: 0) }
            poll(&places, nfds_t(places.count), 20)
            for place in places where place.revents != 0 {
                let isWritable = place.revents & Int16(POLLOUT) != 0
                let isReadable = place.revents & ~Int16(POLLOUT) != 0
                pinproxy_name_process(lookup, isReadable ? place.fd : -1, isWritable ? place.fd : -1)
            }
            pinproxy_name_process(lookup, -1, -1)
            return responses.results.count == 2 ? responses : nil
        }
    }

    @Test("of thousands of addresses the first 80 are used, in order")
    func many() throws {
        let server = try NameServer { _, _ in .addressesOverTCP(ipv4: 4050, ipv6: 2300) }
        let responses = try ask("many.test", of: server)
        #expect(responses.results == [AF_INET: PINPROXY_NAME_FOUND, AF_INET6: PINPROXY_NAME_FOUND])
        #expect(responses.counts == [AF_INET: 80, AF_INET6: 80])
        #expect(responses.first[AF_INET]?.description == "10.0.0.0:0")
        #expect(responses.first[AF_INET6]?.description == "[fd00::]:0")
        #expect(responses.lifetimes == [60])
    }

    @Test("a few addresses are all used; without any, and below .onion, there are none")
    func few() throws {
        let server = try NameServer { name, _ in
            name == "few.test" ? .addressesOverTCP(ipv4: 3, ipv6: 0) : .noSuchName
        }
        let few = try ask("few.test", of: server)
        #expect(few.counts == [AF_INET: 3])
        #expect(few.results == [AF_INET: PINPROXY_NAME_FOUND, AF_INET6: PINPROXY_NAME_UNKNOWN])
        let absent = try ask("absent.test", of: server)
        #expect(absent.counts.isEmpty)
        #expect(absent.results == [AF_INET: PINPROXY_NAME_ABSENT, AF_INET6: PINPROXY_NAME_ABSENT])
        #expect(try ask("a.onion", of: server).results.values.allSatisfy { $0 == PINPROXY_NAME_ABSENT })
        #expect(!server.questions.contains("a.onion"))
    }
}
