// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore
import Testing

@testable import ProxyCore

@Suite("The cache of routes")
struct RouteCacheTests {
    private func makeRoute(_ name: String) -> Route {
        Route(
            destination: .refused(Problem(.hostDenied, name)),
            isUpgraded: false,
            rewritesUpgraded: false,
            logPrefix: Array(name.utf8)
        )
    }

    @Test("scheme, host and port distinguish routes")
    func keys() {
        var cache = RouteCache()
        let hosts = ["a.example", "b.example", "a.exampl", ""]
        var expected: [(Bool, [UInt8], UInt16, Route)] = []
        for isHTTPS in [false, true] {
            for host in hosts.map({ Array($0.utf8) }) {
                for port: UInt16 in [80, 443, 1] {
                    #expect(cache.lookup(isHTTPS: isHTTPS, host: host.span, port: port) == nil)
                    let route = makeRoute("\(isHTTPS) \(host) \(port)")
                    cache.insert(route, isHTTPS: isHTTPS, host: host.span, port: port)
                    expected.append((isHTTPS, host, port, route))
                }
            }
        }
        for (isHTTPS, host, port, route) in expected {
            #expect(cache.lookup(isHTTPS: isHTTPS, host: host.span, port: port) === route)
        }
    }

    @Test("the table grows, and finds no other host's route")
    func growth() {
        var cache = RouteCache()
        // More than it holds: the first ones have gone in the end.
        for number in 0..<20_000 {
            let host = Array("host\(number).example".utf8)
            let route = makeRoute("\(number)")
            cache.insert(route, isHTTPS: true, host: host.span, port: 443)
            let found = cache.lookup(isHTTPS: true, host: host.span, port: 443)
            if found !== route { Issue.record("host\(number) is lost") }
        }
        var known = 0
        for number in 0..<20_000 {
            let host = Array("host\(number).example".utf8)
            guard let route = cache.lookup(isHTTPS: true, host: host.span, port: 443) else { continue }
            known += 1
            if route.logPrefix != Array("\(number)".utf8) { Issue.record("host\(number) has another's route") }
        }
        #expect(known == RouteCache.bound)
    }

    @Test("a new route takes the place of an unused one")
    func secondChance() {
        var cache = RouteCache()
        func insert(_ number: Int) {
            let host = Array("host\(number).example".utf8)
            cache.insert(makeRoute("\(number)"), isHTTPS: true, host: host.span, port: 443)
        }
        func isKnown(_ number: Int) -> Bool {
            let host = Array("host\(number).example".utf8)
            return cache.lookup(isHTTPS: true, host: host.span, port: 443)?.logPrefix == Array("\(number)".utf8)
        }
        let bound = RouteCache.bound
        for number in 0..<bound { insert(number) }
        // Each third one is used.
        for number in stride(from: 0, to: bound, by: 3) where !isKnown(number) { Issue.record("\(number) is lost") }
        let unused = bound - (bound + 2) / 3
        for number in 0..<unused { insert(bound + number) }
        // Nothing is looked up before all are inserted: a look-up is a use.
        var (kept, new, old) = (0, 0, 0)
        for number in 0..<bound where number % 3 == 0 && isKnown(number) { kept += 1 }
        for number in 0..<unused where isKnown(bound + number) { new += 1 }
        for number in 0..<bound where number % 3 != 0 && isKnown(number) { old += 1 }
        #expect(kept == bound - unused)
        #expect(new == unused)
        #expect(old == 0)
        // All are used now: the hand passes all of them once, and the next ones have no second chance.
        insert(-1)
        insert(-2)
        #expect(isKnown(-1) && isKnown(-2))
    }

    @Test("an entry that was used for another host is not found for that")
    func reuse() {
        var cache = RouteCache()
        let long = [UInt8](repeating: UInt8(ascii: "a"), count: 200)
        cache.insert(makeRoute("long"), isHTTPS: true, host: long.span, port: 443)
        for number in 0..<RouteCache.bound {
            let host = Array("h\(number)".utf8)
            cache.insert(makeRoute("\(number)"), isHTTPS: false, host: host.span, port: 80)
        }
        #expect(cache.lookup(isHTTPS: true, host: long.span, port: 443) == nil)
        let last = Array("h\(RouteCache.bound - 1)".utf8)
        #expect(cache.lookup(isHTTPS: false, host: last.span, port: 80) != nil)
        #expect(cache.lookup(isHTTPS: true, host: last.span, port: 80) == nil)
        #expect(cache.lookup(isHTTPS: false, host: last.span, port: 443) == nil)
    }

    @Test("a route in use stays, and an unused one goes")
    func stays() {
        var cache = RouteCache()
        let hosts = (0..<100).map { Array("used\($0).example".utf8) }
        let routes = hosts.map { makeRoute(String(decoding: $0, as: UTF8.self)) }
        for (host, route) in zip(hosts, routes) { cache.insert(route, isHTTPS: true, host: host.span, port: 443) }
        let unused = Array("unused.example".utf8)
        cache.insert(makeRoute("unused"), isHTTPS: true, host: unused.span, port: 443)
        var lost = 0
        for number in 0..<50_000 {
            let host = Array("host\(number).example".utf8)
            cache.insert(makeRoute("\(number)"), isHTTPS: true, host: host.span, port: 443)
            let place = number % hosts.count
            let used = hosts[place]
            if cache.lookup(isHTTPS: true, host: used.span, port: 443) !== routes[place] { lost += 1 }
        }
        #expect(lost == 0)
        #expect(cache.lookup(isHTTPS: true, host: unused.span, port: 443) == nil)
    }
}
