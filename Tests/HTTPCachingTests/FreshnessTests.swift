// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import Testing

@Suite("RFC 9111 section 4.2: freshness")
struct FreshnessTests {
    private static let now = 784_111_777
    private static let date = "Sun, 06 Nov 1994 08:49:37 GMT"

    private func freshness(
        _ fields: HeaderFields,
        status: Int = 200,
        delay: Int = 0,
        after: Int = 0,
        isShared: Bool = true
    ) -> Freshness {
        Freshness(
            status: status,
            fields: fields,
            requestTime: Self.now - delay,
            responseTime: Self.now,
            now: Self.now + after,
            isShared: isShared
        )
    }

    @Test("4.2.1: s-maxage comes first in a shared cache, then max-age, then Expires")
    func precedence() throws {
        var fields = try makeFields(("Date", Self.date), ("Expires", "Sun, 06 Nov 1994 08:50:37 GMT"))
        #expect(freshness(fields).lifetime == 60)
        #expect(freshness(fields).source == .expires)
        try fields.append(name: "Cache-Control", value: "max-age=30")
        #expect(freshness(fields).lifetime == 30)
        try fields.append(name: "Cache-Control", value: "s-maxage=10")
        #expect(freshness(fields).lifetime == 10)
        #expect(freshness(fields).source == .sharedMaxAge)
        #expect(freshness(fields, isShared: false).lifetime == 30)
    }

    @Test("4.2.3: a clock set back to before a response's arrival makes it stale")
    func clockSetBack() throws {
        let fields = try makeFields(("Date", Self.date), ("Cache-Control", "max-age=86400, stale-while-revalidate=600"))
        #expect(!freshness(fields, after: -3600).isFresh)
        // Its age is unknown: it does not count as only slightly stale either.
        #expect(freshness(fields, after: -3600).staleness > 86_400 * 365)
        // The clocks of two threads are read at different moments.
        #expect(freshness(fields, after: -2).isFresh)
        #expect(freshness(fields, after: 3600).isFresh)
    }

    @Test("4.2: a response is fresh while its lifetime exceeds its age")
    func boundary() throws {
        let fields = try makeFields(("Date", Self.date), ("Cache-Control", "max-age=30"))
        #expect(freshness(fields, after: 29).isFresh)
        #expect(!freshness(fields, after: 30).isFresh)
        #expect(freshness(fields, after: 29).staleness == 0)
        #expect(freshness(fields, after: 35).staleness == 5)
    }

    @Test(
        "5.3: an Expires that is invalid, past or contradictory makes the response stale",
        arguments: ["0", "-1", "Sun, 06 Nov 1994 08:00:00 GMT", ""]
    )
    func expires(text: String) throws {
        let fields = try makeFields(
            ("Date", Self.date),
            ("Expires", text),
            ("Last-Modified", "Sun, 06 Nov 1993 08:49:37 GMT")
        )
        #expect(freshness(fields).lifetime == 0)
        #expect(freshness(fields).source == .expires)
        let two = try makeFields(
            ("Date", Self.date),
            ("Expires", "Sun, 06 Nov 1994 09:49:37 GMT"),
            ("Expires", "Sun, 06 Nov 1994 10:49:37 GMT")
        )
        #expect(freshness(two).lifetime == 0)
    }

    @Test("4.2.2: the heuristic is a tenth of the time since modification, at most a day")
    func heuristic() throws {
        let fields = try makeFields(("Date", Self.date), ("Last-Modified", "Sun, 06 Nov 1994 08:32:57 GMT"))
        #expect(freshness(fields).lifetime == 100)
        #expect(freshness(fields).source == .heuristic)
        #expect(freshness(fields, status: 302).source == .none)
        #expect(freshness(fields, status: 302).lifetime == 0)
        let old = try makeFields(("Date", Self.date), ("Last-Modified", "Sat, 06 Nov 1993 08:32:57 GMT"))
        #expect(freshness(old).lifetime == 86_400)
        let future = try makeFields(("Date", Self.date), ("Last-Modified", "Sun, 06 Nov 1994 09:32:57 GMT"))
        #expect(freshness(future).source == .none)
        let marked = try makeFields(
            ("Date", Self.date),
            ("Last-Modified", "Sun, 06 Nov 1994 08:32:57 GMT"),
            ("Cache-Control", "public")
        )
        #expect(freshness(marked, status: 302).lifetime == 100)
    }

    @Test("4.2.3: the age is the larger of both estimates, and the time since")
    func age() throws {
        #expect(freshness(try makeFields(("Date", Self.date))).age == 0)
        #expect(freshness(try makeFields(("Date", "Sun, 06 Nov 1994 08:49:17 GMT")), delay: 5).age == 20)
        #expect(freshness(try makeFields(("Date", "Sun, 06 Nov 1994 08:49:17 GMT"), ("Age", "30")), delay: 5).age == 35)
        #expect(freshness(try makeFields(("Date", Self.date), ("Age", "30")), delay: 5, after: 7).age == 42)
        // A clock ahead of ours makes nothing younger than 0.
        #expect(freshness(try makeFields(("Date", "Sun, 06 Nov 1994 09:49:37 GMT"))).age == 0)
        #expect(freshness(HeaderFields(), after: 3).age == 3)
    }

    @Test(
        "5.1: of a list of ages the first valid number counts",
        arguments: [("10, 20", 10), ("x", 0), ("-5", 0), ("", 0), ("99999999999999999999", 2_147_483_648), ("1.5", 0)]
    )
    func ageField(text: String, age: Int) throws {
        #expect(freshness(try makeFields(("Date", Self.date), ("Age", text))).age == age)
    }

    @Test(
        "4.2: dates are read in any case, and only in GMT",
        arguments: [
            ("sun, 06 nov 1994 08:50:37 gmt", 60), ("SUN, 06 NOV 1994 08:50:37 GMT", 60),
            ("sunday, 06-nov-94 08:50:37 gmt", 60), ("sun nov  6 08:50:37 1994", 60),
            ("Sun, 06 Nov 1994 08:50:37 CET", 0), ("Sun, 06 Nov 1994 08:50:37 +0000", 0),
        ]
    )
    func dates(text: String, lifetime: Int) throws {
        #expect(freshness(try makeFields(("Date", Self.date), ("Expires", text))).lifetime == lifetime)
    }

    @Test("4.2.2: no heuristic is used where an explicit time is present")
    func noGuess() throws {
        let modified = ("Last-Modified", "Sat, 06 Nov 1993 08:32:57 GMT")
        for explicit in [("Cache-Control", "max-age=0"), ("Expires", Self.date), ("Cache-Control", "s-maxage=0")] {
            #expect(freshness(try makeFields(("Date", Self.date), modified, explicit)).lifetime == 0)
        }
    }

    @Test("4.2.3: extreme times give an extreme age, and no trap")
    func extremeTimes() throws {
        let fields = try makeFields(("Date", Self.date), ("Age", "5"), ("Expires", "0"))
        for (requestTime, responseTime, now) in [
            (Int.min, Int.max, Int.max), (Int.max, Int.min, Int.max), (Int.min, Int.min, Int.max),
            (0, Int.max, Int.min),
        ] {
            let freshness = Freshness(
                status: 200,
                fields: fields,
                requestTime: requestTime,
                responseTime: responseTime,
                now: now,
                isShared: true
            )
            #expect(!freshness.isFresh && freshness.age >= 2_147_483_648)
        }
    }
}
