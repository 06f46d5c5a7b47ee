// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import Testing

func makeFields(_ pairs: (String, String)...) throws -> HeaderFields {
    var fields = HeaderFields()
    for (name, value) in pairs { try fields.append(name: name, value: value) }
    return fields
}

@Suite("RFC 9111 section 5.2: Cache-Control")
struct CacheControlTests {
    private func control(_ values: String...) throws -> CacheControl {
        var fields = HeaderFields()
        for value in values { try fields.append(name: "Cache-Control", value: value) }
        return CacheControl(fields)
    }

    @Test("5.2: without the field nothing is said")
    func absent() throws {
        #expect(CacheControl(HeaderFields()) == (try control("")))
        #expect(CacheControl(HeaderFields()).maxAge == nil)
    }

    @Test("5.2 and 5.2.3: names match in any case; arguments are tokens or quoted, over several lines")
    func spelling() throws {
        let control = try control("MAX-AGE=\"60\", No-Store,, public", "s-maxage=5 , unknown=\"a, no-transform\"")
        #expect(control.maxAge == 60)
        #expect(control.sharedMaxAge == 5)
        #expect(control.noStore && control.isPublic)
        #expect(!control.noTransform)
        #expect(!control.isMalformed)
    }

    @Test("5.2.1: the directives of requests")
    func requestDirectives() throws {
        #expect(try control("max-stale").maxStale == .any)
        #expect(try control("max-stale=10").maxStale == .seconds(10))
        #expect(try control("max-stale=x").maxStale == .seconds(0))
        #expect(try control("max-stale, max-stale=10").maxStale == .seconds(0))
        #expect(try control("min-fresh=10").minFresh == 10)
        #expect(try control("min-fresh=x").minFresh == 2_147_483_648)
        #expect(try control("only-if-cached, no-transform").onlyIfCached)
    }

    @Test("5.2.2.4 and 5.2.2.7: no-cache and private with more than 64 fields concern the whole response")
    func manyNames() throws {
        func names(_ range: ClosedRange<Int>) -> String { range.map { "X\($0)" }.joined(separator: ", ") }
        #expect(try control("private=\"\(names(1...64))\"").isPrivate == .fields((1...64).map { "x\($0)" }))
        #expect(try control("private=\"\(names(1...65))\"").isPrivate == .wholeResponse)
        #expect(
            try control("no-cache=\"\(names(1...40))\"", "no-cache=\"\(names(41...65))\"").noCache == .wholeResponse
        )
        var fields = HeaderFields()
        // Joining the names of each line with all before it would take minutes.
        for line in 0..<5_000 {
            try fields.append(name: "Cache-Control", value: "private=\"\(names(line * 9...line * 9 + 8))\"")
        }
        #expect(CacheControl(fields).isPrivate == .wholeResponse)
    }

    @Test("5.2.2: the directives of responses")
    func responseDirectives() throws {
        let control = try control(
            "must-revalidate, proxy-revalidate, must-understand, immutable, stale-while-revalidate=7, stale-if-error=8, no-transform"
        )
        #expect(
            control.mustRevalidate && control.proxyRevalidate && control.mustUnderstand && control.immutable
                && control.noTransform
        )
        #expect(control.staleWhileRevalidate == 7)
        #expect(control.staleIfError == 8)
    }

    @Test("5.2.2.4 and 5.2.2.7: no-cache and private may name fields")
    func qualified() throws {
        #expect(try control("no-cache").noCache == .wholeResponse)
        #expect(try control("no-cache=\"Set-Cookie, X-A\"").noCache == .fields(["set-cookie", "x-a"]))
        #expect(try control("private=x").isPrivate == .fields(["x"]))
        #expect(try control("private=\"\"").isPrivate == .wholeResponse)
        #expect(try control("private=x, private").isPrivate == .wholeResponse)
        #expect(try control("private=x, private=y").isPrivate == .fields(["x", "y"]))
    }

    @Test(
        "1.2.2: a number of seconds above 2^31 counts as that",
        arguments: ["2147483649", "99999999999999999999999999"]
    )
    func largeNumbers(text: String) throws {
        #expect(try control("max-age=\(text)").maxAge == 2_147_483_648)
    }

    @Test(
        "4.2.1: an argument that is no number makes the response stale",
        arguments: ["-1", "1.5", "x", "\"\"", "+1", "0x5"]
    )
    func invalidSeconds(text: String) throws {
        #expect(try control("max-age=\(text)").maxAge == 0)
    }

    @Test("4.2.1: a repeated directive counts if both agree, else the response is stale")
    func duplicates() throws {
        #expect(try control("max-age=5, max-age=5").maxAge == 5)
        #expect(try control("max-age=5, max-age=6").maxAge == 0)
        #expect(try control("max-age").maxAge == 0)
    }

    @Test(
        "a directive that cannot be read is noted",
        arguments: ["a b", "max-age=", "private=\"x, no-store", "=5", "a=\"b\"c", "a=\"b\\"]
    )
    func malformed(text: String) throws {
        #expect(try control(text).isMalformed)
    }
}
