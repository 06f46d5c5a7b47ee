// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPCaching

@Suite("RFC 9111 section 2: cache keys")
struct CacheKeyTests {
    private func key(_ url: String, method: HTTPMethod = .get, partition: [UInt8] = []) throws -> CacheKey {
        let url = try #require(AbsoluteURL(url))
        return CacheKey(method: method, origin: url.origin, target: url.target.span, partition: partition)
    }

    @Test("2: scheme, host, port, path, query and method each make another key")
    func parts() throws {
        let one = try key("https://a.example/x?y")
        #expect(one == (try key("https://A.example.:443/x?y#part")))
        for other in [
            "http://a.example/x?y", "https://b.example/x?y", "https://a.example:444/x?y", "https://a.example/X?y",
            "https://a.example/x?z", "https://a.example/x",
        ] {
            #expect(one != (try key(other)), "\(other)")
        }
        #expect(one != (try key("https://a.example/x?y", method: .options)))
        #expect(String(decoding: one.uri, as: UTF8.self) == "GET https://a.example:443/x?y")
        #expect(String(decoding: one.host, as: UTF8.self) == "a.example")
        #expect(String(decoding: one.url, as: UTF8.self) == "https://a.example:443/x?y")
        #expect(String(decoding: try key("http://[::1]:8080").host, as: UTF8.self) == "[::1]")
        #expect(CacheKey(url: "ftp://a.example/") == nil)
    }

    @Test("4: a stored response to GET has the key of HEAD, and of no other")
    func head() throws {
        #expect(try key("https://a.example/", method: .head) == key("https://a.example/"))
        #expect(try key("https://a.example/", method: .post) != key("https://a.example/"))
    }

    @Test("2: a partition keeps clients apart, and invalidation finds a URI's responses by one hash")
    func partitions() throws {
        let one = try key("https://a.example/", partition: [1])
        let other = try key("https://a.example/", partition: [2])
        #expect(one != other)
        #expect(one.hash == other.hash && one.uri == other.uri)
    }

    @Test(
        "XXH64 gives the values of its specification, in one piece and in many",
        arguments: [
            ("", 0, 0xEF46_DB37_51D8_E999), ("a", 0, 0xD24E_C4F1_A98C_6E5B), ("abc", 0, 0x44BC_2CF5_AD77_0999),
            ("Nobody inspects the spammish repetition", 0, 0xFBCE_A83C_8A37_8BF1),
            ("The quick brown fox jumps over the lazy dog", 0, 0x0B24_2D36_1FDA_71BC),
        ] as [(String, UInt64, UInt64)]
    )
    func checksum(text: String, seed: UInt64, expected: UInt64) {
        let bytes = Array(text.utf8)
        #expect(XXH64.hash(bytes.span, seed: seed) == expected)
        for size in [1, 7, 31, 32, 33] {
            var state = XXH64(seed: seed)
            var start = 0
            while start < bytes.count {
                let end = min(bytes.count, start + size)
                state.update(bytes.span.extracting(start..<end))
                start = end
            }
            #expect(state.value == expected)
        }
    }

    @Test(
        "a key from a damaged index has a host or none, and no trap",
        arguments: ["GET http:/", "/", "", "GET", "GET /"]
    )
    func damagedURI(uri: String) {
        let key = CacheKey(uri: Array(uri.utf8), part: [0, 255, 255, 255, 127])
        #expect(key.host.isEmpty && key.url.count <= uri.utf8.count && key.variant.isEmpty)
    }
}
