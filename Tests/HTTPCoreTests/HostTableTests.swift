// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@Suite("The table of values by host")
struct HostTableTests {
    private func table(_ entries: [(String, Bool, Int)]) throws -> HostTable<Int> {
        var table = HostTable<Int>()
        for (host, includes, value) in entries {
            #expect(try table.insert(Host(host), includeSubdomains: includes, value))
        }
        return table
    }

    @Test("the exact host wins over every parent")
    func exactWins() throws {
        let table = try table([("example.com", true, 1), ("api.example.com", false, 2)])
        #expect(try table.lookup(Host("api.example.com")) == 2)
        #expect(try table.lookup(Host("API.example.com.")) == 2)
        #expect(try table.lookup(Host("www.example.com")) == 1)
    }

    @Test("the longest parent that includes its subdomains wins")
    func longestParent() throws {
        let table = try table([
            ("com", true, 0), ("example.com", true, 1), ("b.example.com", true, 2), ("a.b.example.com", false, 3),
        ])
        #expect(try table.lookup(Host("x.a.b.example.com")) == 2)
        #expect(try table.lookup(Host("a.b.example.com")) == 3)
        #expect(try table.lookup(Host("z.example.com")) == 1)
        #expect(try table.lookup(Host("other.com")) == 0)
        #expect(try table.lookup(Host("other.org")) == nil)
    }

    @Test("a parent without subdomains covers itself alone")
    func withoutSubdomains() throws {
        let table = try table([("example.com", false, 1)])
        #expect(try table.lookup(Host("example.com")) == 1)
        #expect(try table.lookup(Host("api.example.com")) == nil)
    }

    @Test("a suffix that does not begin at a dot is another domain")
    func suffixTrick() throws {
        let table = try table([("example.com", true, 1)])
        #expect(try table.lookup(Host("evilexample.com")) == nil)
        #expect(try table.lookup(Host("example.com.evil.org")) == nil)
        #expect(try table.lookup(Host("xample.com")) == nil)
    }

    @Test("an address is found by value and has no subdomains")
    func addresses() throws {
        let table = try table([("127.0.0.1", true, 1), ("[::1]", true, 2)])
        #expect(try table.lookup(Host("127.0.0.1")) == 1)
        #expect(try table.lookup(Host("[0:0::1]")) == 2)
        #expect(try table.lookup(Host("x.org")) == nil)
    }

    @Test("a second entry for a host is refused and changes nothing")
    func duplicates() throws {
        var table = try table([("example.com", true, 1)])
        #expect(try !table.insert(Host("EXAMPLE.com."), includeSubdomains: false, 2))
        #expect(table.count == 1)
        #expect(try table.lookup(Host("a.example.com")) == 1)
        #expect(try table.exact(Host("a.example.com")) == nil)
    }

    @Test("each of ten thousand hosts is found, and its neighbours are not")
    func manyHosts() throws {
        var table = HostTable<Int>()
        for number in 0..<10_000 {
            #expect(try table.insert(Host("h\(number).example"), includeSubdomains: number % 2 == 0, number))
        }
        for number in 0..<10_000 {
            #expect(try table.lookup(Host("h\(number).example")) == number)
            #expect(try table.lookup(Host("x.h\(number).example")) == (number % 2 == 0 ? number : nil))
        }
    }
}
