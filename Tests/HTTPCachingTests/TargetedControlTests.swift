// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPCaching

@Suite("RFC 9213: targeted fields")
struct TargetedControlTests {
    private typealias Stage = CachingStage

    private func control(_ value: String) throws -> CacheControl? {
        CacheControl(
            targeted: Array("pinproxy-cache-control".utf8),
            in: try HeaderFields("Pinproxy-Cache-Control", value)
        )
    }

    private func judge(_ pairs: Stage.Pairs, _ options: CacheOptions = Stage.shared) throws -> Storability {
        Storability.evaluate(try Stage.request(), status: 200, response: try Stage.fields(pairs), options)
    }

    @Test("9213 2.1: a dictionary gives cache directives; unknown ones and parameters are ignored")
    func dictionary() throws {
        let read = try #require(try control("max-age=60;x=1, no-cache=\"A, b\", must-revalidate, other=(a b), y=?0"))
        #expect(read.maxAge == 60 && read.mustRevalidate)
        #expect(read.noCache == .fields(["a", "b"]))
        #expect(try control("no-store=?0, max-age=1, max-age=2")?.maxAge == 2)
        #expect(try control("no-store=?0")?.noStore == false)
    }

    @Test(
        "9213 2.1: an empty field and one that is no dictionary are ignored",
        arguments: [
            "", "Max-Age=60", "max-age=60,", "max-age=60 no-store", "a=\"x", "a=", "=1", "max-age=60, &&&", "a=1.",
            "a=:é:",
        ]
    )
    func malformed(text: String) throws {
        #expect(try control(text) == nil)
        #expect(
            try judge([("Pinproxy-Cache-Control", text), ("Cache-Control", "no-store")])
                == .notStorable(.responseNoStore)
        )
    }

    @Test(
        "9213 2.1: a value of the wrong type is not coerced",
        arguments: [
            "max-age=1.5", "max-age=-1", "max-age=tomorrow", "max-age", "max-age=?1", "max-age=(1)", "max-age=:MQ==:",
        ]
    )
    func wrongType(text: String) throws {
        #expect(try control(text)?.maxAge == 0)
    }

    @Test(
        "9213 2.1: a directive of the wrong type forbids storing",
        arguments: [
            "max-age=\"10000\"", "max-age=tomorrow", "max-age=10000.5", "s-maxage=\"60\", max-age=60", "max-age",
            "max-age=60, no-store=1", "max-age=60, must-revalidate=\"x\"", "max-age=60, private=7",
            "max-age=60, no-cache=token",
        ]
    )
    func wrongTypeIsNotStored(text: String) throws {
        let expected = Storability.notStorable(.malformedCacheControl)
        #expect(try judge([("Pinproxy-Cache-Control", text), ("Cache-Control", "no-store")]) == expected)
        #expect(try judge([("Pinproxy-Cache-Control", text)]) == expected)
        // The same directives with values of their types.
        #expect(try judge([("Pinproxy-Cache-Control", "max-age=10000"), ("Cache-Control", "no-store")]) == .storable)
        // An unknown directive may have any value.
        #expect(try judge([("Pinproxy-Cache-Control", "max-age=9, color=\"red\"")]) == .storable)
    }

    @Test("9213 2.1: a field with too many members forbids storing")
    func tooManyMembers() throws {
        let members = (0..<1023).map { "a\($0)" }.joined(separator: ",")
        #expect(try judge([("Pinproxy-Cache-Control", "max-age=9," + members)]) == .storable)
        #expect(
            try judge([("Pinproxy-Cache-Control", "max-age=9," + members + ",no-store")])
                == .notStorable(.malformedCacheControl)
        )
        // A repeated key is not a new member (RFC 8941 4.2.2).
        let again = [String](repeating: "max-age=8", count: 3000).joined(separator: ",")
        #expect(try control(again + ",max-age=7")?.maxAge == 7)
    }

    @Test("9213 2.2: the first valid target field governs, and replaces Cache-Control and Expires")
    func precedence() throws {
        let both = CacheOptions(targets: [CacheOptions.ownTarget, CacheOptions.gatewayTarget])
        let pairs = [
            ("Date", Stage.date), ("Cache-Control", "no-store"), ("CDN-Cache-Control", "max-age=7"),
            ("Pinproxy-Cache-Control", "max-age=9"), ("Expires", "0"),
        ]
        #expect(try judge(pairs, both) == .storable)
        #expect(try Stage.stored(pairs, options: both).freshness(now: Stage.now).lifetime == 9)
        let cdn = CacheOptions(targets: [CacheOptions.gatewayTarget])
        #expect(try Stage.stored(pairs, options: cdn).freshness(now: Stage.now).lifetime == 7)
        // A field that is not on the list has no effect, and is forwarded like any other.
        #expect(
            try judge([("CDN-Cache-Control", "max-age=7"), ("Cache-Control", "no-store")])
                == .notStorable(.responseNoStore)
        )
        #expect(try Stage.stored([("CDN-Cache-Control", "max-age=7")]).fields.value(for: "cdn-cache-control") != nil)
        #expect(
            try judge([("Pinproxy-Cache-Control", "no-store"), ("Cache-Control", "max-age=9")])
                == .notStorable(.responseNoStore)
        )
        // Expires would be the only lifetime.
        let silent = try Stage.stored([
            ("Pinproxy-Cache-Control", "none"), ("Expires", "Sun, 06 Nov 1994 09:49:37 GMT"),
        ])
        #expect(silent.freshness(now: Stage.now).lifetime == 0)
    }

    @Test("9213 2.2: private and no-cache have the meaning that they have in Cache-Control")
    func sameMeaning() throws {
        #expect(try judge([("Pinproxy-Cache-Control", "private, max-age=9")]) == .notStorable(.isPrivate))
        let stored = try Stage.stored([("Pinproxy-Cache-Control", "no-cache, max-age=9"), ("ETag", "\"a\"")])
        #expect(Stage.decide(try Stage.request(), stored) == .forward(.stale, validates: true))
    }
}
