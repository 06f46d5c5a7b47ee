// SPDX-License-Identifier: Apache-2.0
import IOCore
import Testing

@testable import SessionCore

private func v4(_ last: UInt32 = 1) -> SocketAddress { SocketAddress(ipv4: 0xC000_0200 + last, port: 0) }
/// - Parameter first: the first 16 bits.
private func v6(_ first: UInt64 = 0x2A00, _ last: UInt64 = 1) -> SocketAddress {
    SocketAddress(ipv6Upper: first << 48, lower: last, port: 0)
}

private func found(_ addresses: SocketAddress..., lifetime: UInt64 = 60) -> NameSearch.Response {
    NameSearch.Response(answer: .success(addresses), lifetime: lifetime)
}

private func failed(_ reason: NameFailure.Reason, _ words: String = "") -> NameSearch.Response {
    NameSearch.Response(answer: .failure(NameFailure(reason: reason, words: words)), lifetime: 0)
}

/// There is no such name.
private func absent(_ words: String = "") -> NameSearch.Response {
    NameSearch.Response(
        answer: .failure(NameFailure(reason: .unknown, words: words)),
        lifetime: 0,
        isAbsent: true
    )
}

@Suite("The queries for a name")
struct NameSearchTests {
    private static let millisecond: UInt64 = 1_000_000

    /// With a route to every address, from one of the same kind.
    private func search(
        _ name: String = "a.test",
        _ domains: [String] = [],
        dots: Int = 1,
        source: @escaping (SocketAddress) -> SocketAddress? = { $0 }
    ) -> NameSearch { NameSearch(name, domains: domains, dots: dots, source: source) }

    /// The names that are asked for when none exists.
    private func names(_ name: String, _ domains: [String], dots: Int = 1) -> [String] {
        var search = search(name, domains, dots: dots)
        var names: [String] = []
        var step = search.begin()
        while case .ask(let name) = step {
            names.append(name)
            #expect(search.note(failed(.unknown), for: .ipv6, at: 0) == .wait(until: nil))
            step = search.note(failed(.unknown, name), for: .ipv4, at: 0)
        }
        #expect(step == .end(failed(.unknown, names.last!).answer, lifetime: 0))
        return names
    }

    @Test("a name with enough dots comes first, others after the search list")
    func order() {
        #expect(names("a.test", ["x.test", "y.test"]) == ["a.test", "a.test.x.test", "a.test.y.test"])
        #expect(names("a", ["x.test", "y.test"]) == ["a.x.test", "a.y.test", "a"])
        #expect(names("a.b", ["x.test"], dots: 2) == ["a.b.x.test", "a.b"])
        #expect(names("a", []) == ["a"])
        #expect(names("a.onion", ["x.test"]) == ["a.onion"])
    }

    @Test("the addresses of both families belong to one full name")
    func oneName() {
        var search = search("a.test", ["x.test"])
        #expect(search.begin() == .ask("a.test"))
        // No query for a.test.x.test follows.
        _ = search.note(found(v4()), for: .ipv4, at: 0)
        #expect(search.note(failed(.unknown), for: .ipv6, at: 1) == .end(.success([v4()]), lifetime: 60))
    }

    @Test("addresses of both families: IPv6 first, with the shorter time to live")
    func both() {
        for isIPv4First in [true, false] {
            var search = search()
            _ = search.begin()
            let responses: [(NameSearch.Family, NameSearch.Response)] = [
                (.ipv4, found(v4(1), v4(2), lifetime: 9)), (.ipv6, found(v6(), lifetime: 30)),
            ]
            for (family, response) in isIPv4First ? responses : responses.reversed() {
                let step = search.note(response, for: family, at: 0)
                let delay = (isIPv4First ? 50 : 1000) * Self.millisecond
                if (family == .ipv4) == isIPv4First {
                    #expect(step == .wait(until: delay))
                } else {
                    #expect(step == .end(.success([v6(), v4(1), v4(2)]), lifetime: 9))
                }
            }
        }
    }

    @Test("IPv4 addresses wait 50 ms for IPv6, and IPv6 addresses a second for IPv4")
    func delays() {
        let cases: [(NameSearch.Family, NameSearch.Response, UInt64)] = [
            (.ipv4, found(v4()), 50), (.ipv6, found(v6()), 1000),
        ]
        for (family, response, delay) in cases {
            var search = search()
            _ = search.begin()
            let end = (7 + delay) * Self.millisecond
            #expect(search.proceed(at: end) == .wait(until: nil))
            #expect(search.note(response, for: family, at: 7 * Self.millisecond) == .wait(until: end))
            #expect(search.proceed(at: end - 1) == .wait(until: end))
            #expect(search.proceed(at: end) == .end(response.answer, lifetime: 10))
        }
    }

    @Test("addresses without a route wait for the other family")
    func withoutRoute() {
        var search = search { $0.family == .ipv4 ? nil : $0 }
        _ = search.begin()
        #expect(search.note(found(v4()), for: .ipv4, at: 0) == .wait(until: nil))
        #expect(search.proceed(at: .max) == .wait(until: nil))
        #expect(search.note(found(v6()), for: .ipv6, at: 9) == .end(.success([v6(), v4()]), lifetime: 60))
    }

    @Test("one family's failure leaves the other's addresses in use")
    func partial() {
        let cases: [(NameFailure.Reason, UInt64)] = [(.unknown, 60), (.silent, 10), (.failed, 10)]
        for (reason, lifetime) in cases {
            for (family, other, response) in [
                (NameSearch.Family.ipv4, NameSearch.Family.ipv6, found(v4())), (.ipv6, .ipv4, found(v6())),
            ] {
                var search = search("a.test", ["x.test"])
                _ = search.begin()
                #expect(search.note(failed(reason), for: other, at: 0) == .wait(until: nil))
                #expect(search.note(response, for: family, at: 0) == .end(response.answer, lifetime: lifetime))
            }
        }
    }

    @Test("a nonexistent name is final for both families, unless addresses come soon")
    func absentName() {
        for (family, other, delay) in [(NameSearch.Family.ipv4, NameSearch.Family.ipv6, 50), (.ipv6, .ipv4, 1000)] {
            let end = UInt64(delay) * Self.millisecond
            var search = search("a.test", ["x.test"])
            _ = search.begin()
            #expect(search.note(absent(), for: family, at: 0) == .wait(until: end))
            #expect(search.proceed(at: end - 1) == .wait(until: end))
            #expect(search.proceed(at: end) == .ask("a.test.x.test"))
            // The new queries have no response yet.
            #expect(search.proceed(at: .max) == .wait(until: nil))
            #expect(search.note(absent("no"), for: family, at: end) == .wait(until: 2 * end))
            #expect(search.proceed(at: 2 * end) == .end(absent("no").answer, lifetime: 0))

            // Servers that say so of one family alone.
            let response = found(other == .ipv4 ? v4() : v6())
            var broken = self.search("a.test", ["x.test"])
            _ = broken.begin()
            _ = broken.note(absent(), for: family, at: 0)
            #expect(broken.note(response, for: other, at: 1) == .end(response.answer, lifetime: 60))
        }
    }

    @Test("a nonexistent name decides, although the other family's servers fail")
    func absentBesideFailure() {
        for reason in [NameFailure.Reason.silent, .failed, .withoutDescriptor] {
            for (family, other) in [(NameSearch.Family.ipv4, NameSearch.Family.ipv6), (.ipv6, .ipv4)] {
                var search = search("a.test", ["x.test"])
                _ = search.begin()
                _ = search.note(failed(reason), for: family, at: 0)
                #expect(search.note(absent(), for: other, at: 0) == .ask("a.test.x.test"))
            }
        }
    }

    @Test("a failure that leaves the name's existence open ends the search")
    func openFailure() {
        for reason in [NameFailure.Reason.silent, .failed, .withoutDescriptor] {
            for family in NameSearch.Family.allCases {
                var search = search("a.test", ["x.test"])
                _ = search.begin()
                _ = search.note(failed(reason), for: family, at: 0)
                let step = search.note(failed(.unknown), for: family == .ipv4 ? .ipv6 : .ipv4, at: 0)
                #expect(step == .end(failed(reason).answer, lifetime: 0))
            }
        }
    }

    @Test("failing servers of a domain do not end the search")
    func failedDomain() {
        var search = search("a", ["x.test", "y.test"])
        #expect(search.begin() == .ask("a.x.test"))
        _ = search.note(failed(.failed, "first"), for: .ipv4, at: 0)
        #expect(search.note(failed(.unknown), for: .ipv6, at: 0) == .ask("a.y.test"))
        _ = search.note(failed(.failed, "second"), for: .ipv4, at: 0)
        #expect(search.note(failed(.failed, "third"), for: .ipv6, at: 0) == .ask("a"))
        var found = search
        #expect(found.note(SessionCoreTests.found(v4()), for: .ipv4, at: 0) == .wait(until: 50 * Self.millisecond))
        #expect(found.note(absent(), for: .ipv6, at: 0) == .end(.success([v4()]), lifetime: 60))
        _ = search.note(absent(), for: .ipv4, at: 0)
        #expect(search.note(absent(), for: .ipv6, at: 0) == .end(failed(.failed, "first").answer, lifetime: 0))
        // A silent server is as silent for the next name.
        var silent = self.search("a", ["x.test"])
        _ = silent.begin()
        _ = silent.note(failed(.unknown), for: .ipv4, at: 0)
        #expect(silent.note(failed(.silent), for: .ipv6, at: 0) == .end(failed(.silent).answer, lifetime: 0))
    }
}

@Suite("The family that is tried first")
struct FamilyOrderTests {
    private func isIPv6First(_ ipv6: SocketAddress, from source: SocketAddress?, ipv4Source: SocketAddress? = v4(9))
        -> Bool
    {
        FamilyOrder.isIPv6First(ipv6, before: v4()) { $0.family == .ipv6 ? source : ipv4Source }
    }

    @Test("IPv6 is first if it has a route and its label (RFC 6724)")
    func order() {
        #expect(isIPv6First(v6(), from: v6(0x2A01)))
        // No route.
        #expect(!isIPv6First(v6(), from: nil))
        #expect(isIPv6First(v6(), from: v6(0x2A01), ipv4Source: nil))
        #expect(isIPv6First(v6(), from: nil, ipv4Source: nil))
        // The source is a local address, or a tunnel's.
        #expect(!isIPv6First(v6(), from: v6(0xFD00)))
        #expect(!isIPv6First(v6(), from: v6(0x2002)))
        #expect(isIPv6First(v6(0xFD01), from: v6(0xFD00), ipv4Source: nil))
        // The only IPv6 address is link-local, the destination is not.
        #expect(!isIPv6First(v6(), from: v6(0xFE80)))
        #expect(isIPv6First(v6(), from: v6(0xFE80), ipv4Source: SocketAddress(ipv4: 0xA9FE_0001, port: 0)))
        #expect(isIPv6First(v6(0xFE80), from: v6(0xFE80)))
        // IPv4 comes before local addresses and tunnels.
        for first: UInt64 in [0xFC00, 0xFD00, 0x2002, 0xFEC0] { #expect(!isIPv6First(v6(first), from: v6(first))) }
        let teredo = SocketAddress(ipv6Upper: 0x2001_0000_0102_0304, lower: 1, port: 0)
        #expect(!isIPv6First(teredo, from: teredo))
        let other = SocketAddress(ipv6Upper: 0x2001_0DB8_0102_0304, lower: 1, port: 0)
        #expect(isIPv6First(other, from: other))
        #expect(isIPv6First(v6(0, 1), from: v6(0, 1)))
        #expect(!isIPv6First(v6(0, 0xFFFF_0102_0304), from: v6(0, 0xFFFF_0102_0305)))
    }

    @Test("a check waits for IPv6 as long as for IPv4")
    func check() {
        var search = NameSearch("a.test", domains: [], dots: 1, isCheck: true) { $0 }
        _ = search.begin()
        let response = NameSearch.Response(answer: .success([SocketAddress(ipv4: 1, port: 0)]), lifetime: 60)
        #expect(search.note(response, for: .ipv4, at: 5) == .wait(until: 5 + NameSearch.ipv4Delay.nanoseconds))
    }
}
