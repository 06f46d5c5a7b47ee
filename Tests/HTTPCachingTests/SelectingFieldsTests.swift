// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPCaching

@Suite("RFC 9111 section 4.1: Vary")
struct SelectingFieldsTests {
    private typealias Stage = CachingStage

    private func matches(_ vary: String, _ stored: Stage.Pairs, _ presented: Stage.Pairs) throws -> Bool {
        SelectingFields(vary: try HeaderFields("Vary", vary), request: try Stage.fields(stored))
            .matches(try Stage.fields(presented))
    }

    @Test("4.1: a response is used only where all the fields that Vary names match")
    func mustMatch() throws {
        let german = [("Accept-Language", "de"), ("X-Kind", "1")]
        #expect(try matches("Accept-Language, x-kind", german, german))
        #expect(try matches("Accept-Language", german, [("Accept-Language", "de"), ("X-Kind", "2")]))
        #expect(try !matches("Accept-Language, X-Kind", german, [("Accept-Language", "de"), ("X-Kind", "2")]))
        #expect(try !matches("Accept-Language", german, [("Accept-Language", "en")]))
    }

    @Test("4.1: white space, field lines and equivalent values do not keep requests apart")
    func normalForm() throws {
        #expect(try matches("Accept-Encoding", [("Accept-Encoding", "gzip, br")], [("accept-encoding", "BR ,gzip")]))
        #expect(
            try matches("Accept", [("Accept", "a/b; q=0.5, c/d")], [("Accept", "a/b;q=0.5"), ("Accept", "c/d")])
        )
        #expect(try matches("Accept-Language", [("Accept-Language", "de-AT,en")], [("Accept-Language", "de-at, EN")]))
        #expect(try matches("X-Kind", [("X-Kind", "a"), ("X-Kind", "b")], [("X-Kind", "a, b")]))
    }

    @Test("4.1: values that are not known to be equivalent keep requests apart")
    func kept() throws {
        #expect(try !matches("X-Kind", [("X-Kind", "a")], [("X-Kind", "A")]))
        #expect(try !matches("X-Kind", [("X-Kind", "a,b")], [("X-Kind", "a, b")]))
        #expect(try !matches("Accept-Language", [("Accept-Language", "de, en")], [("Accept-Language", "en, de")]))
        #expect(try !matches("Accept", [("Accept", "a/b;v=\"X Y\"")], [("Accept", "a/b;v=\"XY\"")]))
        #expect(try !matches("Accept", [("Accept", "a/b;v=\"\\\" Y\"")], [("Accept", "a/b;v=\"\\\"Y\"")]))
    }

    @Test("4.1: a field that is absent matches only where it is absent too")
    func absent() throws {
        #expect(try matches("X-Kind", [], []))
        #expect(try !matches("X-Kind", [], [("X-Kind", "")]))
        #expect(try !matches("X-Kind", [("X-Kind", "")], []))
    }

    @Test("4.1: of several that match, the latest by Date is used")
    func latest() throws {
        let old = try Stage.stored([("Vary", "A"), ("Date", Stage.anHourBefore)], to: [("A", "1")])
        let new = try Stage.stored([("Vary", "A")], to: [("A", "1")])
        let other = try Stage.stored([("Vary", "A")], to: [("A", "2")])
        let request = try Stage.request([("A", "1")])
        func select(_ variants: [StoredResponse]) -> Int? {
            StoredResponse.select(among: variants, for: request, under: Stage.digest, Stage.shared)
        }
        #expect(select([old, new, other]) == 1)
        #expect(select([new, old, other]) == 0)
        #expect(select([other]) == nil)
        #expect(select([]) == nil)
    }

    @Test("4.1: a response without Vary beside one with it is kept under that Vary")
    func inconsistentVary() throws {
        let varied = try Stage.stored([("Vary", "A")], to: [("A", "1")])
        let silent = try Stage.stored([], to: [("A", "2")], siblings: [varied])
        #expect(silent.matches(try Stage.request([("A", "2")]), under: Stage.digest, Stage.shared))
        #expect(!silent.matches(try Stage.request([("A", "1")]), under: Stage.digest, Stage.shared))
        let alone = try Stage.stored([], to: [("A", "2")])
        #expect(alone.matches(try Stage.request([("A", "1")]), under: Stage.digest, Stage.shared))
    }

    @Test("a Vary of more than 64 names counts as *, also from a validation")
    func tooManyNames() throws {
        let names = (1...65).map { "X\($0)" }
        let few = try HeaderFields("Vary", (names.dropLast() + ["", ""]).joined(separator: ","))
        #expect(SelectingFields.names(few).count == 64)
        #expect(try matches(names.dropLast().joined(separator: ","), [("X1", "a")], [("X1", "a")]))
        let many = try HeaderFields("Vary", names.joined(separator: ","))
        #expect(SelectingFields.names(many).count == 65)
        let stored = try Stage.stored([]).updated(
            by: many,
            to: try Stage.request(),
            requestTime: Stage.now,
            responseTime: Stage.now,
            Stage.shared
        )
        #expect(!stored.matches(try Stage.request(), under: Stage.digest, Stage.shared))
        // Only the first members are looked at: a list of a few names again and again would cost each its search.
        let again = try HeaderFields(
            "Vary",
            (names.dropLast() + Array(repeating: "X1", count: 50_000)).joined(separator: ",")
        )
        #expect(SelectingFields.names(again).count > 64)
    }

    @Test("a long list is compared as it is written")
    func longLists() throws {
        let codings = (1...64).map { "c\($0)" }
        func accept(_ codings: [String]) -> Stage.Pairs { [("Accept-Encoding", codings.joined(separator: ", "))] }
        #expect(try matches("Accept-Encoding", accept(codings), accept(codings.reversed())))
        let more = codings + ["c65"]
        #expect(try matches("Accept-Encoding", accept(more), accept(more)))
        #expect(try !matches("Accept-Encoding", accept(more), accept(more.reversed())))
    }

    @Test("a response is not used under another policy than it was received under")
    func digest() throws {
        let stored = try Stage.stored([])
        #expect(stored.matches(try Stage.request(), under: Stage.digest, Stage.shared))
        #expect(!stored.matches(try Stage.request(), under: PolicyDigest([9]), Stage.shared))
    }

    @Test("5.2.2.7: a shared cache does not use what a private one kept")
    func sharing() throws {
        let stored = try Stage.stored([("Cache-Control", "private, max-age=60")], options: Stage.ofOne)
        #expect(stored.matches(try Stage.request(), under: Stage.digest, Stage.ofOne))
        #expect(!stored.matches(try Stage.request(), under: Stage.digest, Stage.shared))
    }
}
