// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPCaching

@Suite("RFC 9111 section 4.3.2: conditional and range requests of clients")
struct ClientConditionTests {
    private typealias Stage = CachingStage

    private func servedResponse(
        _ request: Stage.Pairs,
        _ response: Stage.Pairs = [("ETag", "\"a\""), ("Content-Type", "a/b")],
        status: Int = 200,
        method: HTTPMethod = .get,
        length: Int = 10
    ) throws -> CacheResponse {
        CacheResponse(
            try Stage.stored(response, status: status),
            length: length,
            to: try Stage.request(request, method: method),
            age: 4
        )
    }

    @Test(
        "4.3.2: If-None-Match is met by the stored entity tag, compared weakly, among any others",
        arguments: [
            ("\"a\"", true), ("W/\"a\"", true), ("*", true), ("\"b\", \"a\"", true), ("\"b\"", false), ("a", false),
            ("\"a,b\"", false), ("\"x\\\", \"a\"", true), ("", false),
        ]
    )
    func ifNoneMatch(value: String, isMet: Bool) throws {
        #expect(try servedResponse([("If-None-Match", value)]).status == (isMet ? 304 : 200))
        #expect(try servedResponse([("If-None-Match", value)], method: .head).status == (isMet ? 304 : 200))
    }

    @Test("4.3.2: If-None-Match comes before If-Modified-Since")
    func precedence() throws {
        let response = [("ETag", "\"a\""), ("Last-Modified", Stage.anHourBefore)]
        let request = [("If-None-Match", "\"b\""), ("If-Modified-Since", Stage.date)]
        #expect(try servedResponse(request, response).status == 200)
    }

    @Test("4.3.2: If-Modified-Since goes by Last-Modified, else by Date, else by when it was received")
    func ifModifiedSince() throws {
        let since = [("If-Modified-Since", Stage.anHourBefore)]
        #expect(try servedResponse(since, [("Last-Modified", Stage.anHourBefore)]).status == 304)
        #expect(try servedResponse(since, [("Last-Modified", Stage.date)]).status == 200)
        #expect(try servedResponse(since, [("Last-Modified", "yesterday")]).status == 200)
        #expect(try servedResponse(since, []).status == 200)
        #expect(try servedResponse([("If-Modified-Since", Stage.date)], []).status == 304)
        #expect(try servedResponse([("If-Modified-Since", "x")], [("Last-Modified", Stage.date)]).status == 200)
        let undated = StoredResponse(
            status: 200,
            response: HeaderFields(),
            to: try Stage.request(),
            requestTime: Stage.now,
            responseTime: Stage.now,
            digest: Stage.digest,
            Stage.shared
        )
        #expect(ClientConditions.areMet(try HeaderFields("If-Modified-Since", Stage.date), by: undated))
        #expect(!ClientConditions.areMet(try HeaderFields("If-Modified-Since", Stage.anHourBefore), by: undated))
    }

    @Test("4.3.2: only a stored 200 becomes a 304")
    func statuses() throws {
        #expect(try servedResponse([("If-None-Match", "*")], status: 404).status == 404)
    }

    @Test("4.3.2: a 304 has the stored fields but those of the body")
    func notModified() throws {
        let response = [
            ("ETag", "\"a\""), ("Content-Type", "a/b"), ("Content-Location", "/x"), ("Vary", "A"), ("Expires", "0"),
            ("Cache-Control", "max-age=9"), ("Content-Encoding", "gzip"),
        ]
        let served = try servedResponse([("If-None-Match", "\"a\"")], response)
        #expect(
            served.fields.list.map(\.name) == [
                "ETag", "Content-Location", "Vary", "Expires", "Cache-Control", "Date", "Age",
            ]
        )
        #expect(served.body.isEmpty && served.contentLength == nil)
    }

    @Test("4: a stored response to GET serves HEAD, with the length and without the body")
    func head() throws {
        let served = try servedResponse([], method: .head)
        #expect(served.status == 200 && served.body.isEmpty && served.contentLength == 10)
    }

    @Test(
        "3.3: a complete response serves a range with 206",
        arguments: [
            ("bytes=0-0", 0..<1, "bytes 0-0/10"), ("bytes=2-4", 2..<5, "bytes 2-4/10"),
            ("bytes=2-", 2..<10, "bytes 2-9/10"), ("bytes=-3", 7..<10, "bytes 7-9/10"),
            ("bytes=-99", 0..<10, "bytes 0-9/10"), ("bytes=9-99999999999999999999", 9..<10, "bytes 9-9/10"),
            ("BYTES=1-1", 1..<2, "bytes 1-1/10"),
        ]
    )
    func ranges(value: String, body: Range<Int>, contentRange: String) throws {
        let served = try servedResponse([("Range", value)])
        #expect(served.status == 206 && served.body == body && served.contentLength == body.count)
        #expect(served.fields.values(for: "Content-Range") == [contentRange])
        #expect(served.fields.value(for: "Content-Type") == "a/b")
    }

    @Test("3.3: a range behind the end gets 416", arguments: ["bytes=10-", "bytes=10-12", "bytes=-0"])
    func unsatisfiable(value: String) throws {
        let served = try servedResponse([("Range", value)])
        #expect(served.status == 416 && served.body.isEmpty)
        #expect(served.fields.value(for: "Content-Range") == "bytes */10")
        #expect(try self.servedResponse([("Range", "bytes=0-")], length: 0).status == 416)
        #expect(try self.servedResponse([("Range", "bytes=-5")], length: 0).status == 416)
    }

    @Test(
        "3.3: several ranges, other units and unreadable ranges get the whole response",
        arguments: [
            "bytes=0-1,3-4", "lines=0-1", "bytes=4-2", "bytes=x-2", "bytes=-", "bytes", "bytes=1", "bytes=1-x",
            "bytes=--1",
        ]
    )
    func whole(value: String) throws {
        let served = try servedResponse([("Range", value)])
        #expect(served.status == 200 && served.body == 0..<10)
    }

    @Test("3.3: Range is ignored for HEAD and for statuses other than 200")
    func rangesElsewhere() throws {
        #expect(try servedResponse([("Range", "bytes=0-1")], status: 404).status == 404)
        #expect(try servedResponse([("Range", "bytes=0-1")], method: .head).status == 200)
    }

    @Test(
        "4.3.2: If-Range matches a strong entity tag or a date that is a strong validator",
        arguments: [
            ("\"a\"", true), ("W/\"a\"", false), ("\"b\"", false), (CachingStage.anHourBefore, true),
            (CachingStage.date, false), ("x", false),
        ]
    )
    func ifRange(value: String, isMet: Bool) throws {
        let response = [("ETag", "\"a\""), ("Last-Modified", Stage.anHourBefore)]
        let request = [("Range", "bytes=0-1"), ("If-Range", value)]
        #expect(try servedResponse(request, response).status == (isMet ? 206 : 200))
    }

    @Test("4.3.2: If-Range matches neither a weak tag nor a date as late as the response")
    func weakIfRange() throws {
        #expect(
            try servedResponse([("Range", "bytes=0-1"), ("If-Range", "\"a\"")], [("ETag", "W/\"a\"")]).status == 200
        )
        let justNow = [("Last-Modified", Stage.date)]
        #expect(try servedResponse([("Range", "bytes=0-1"), ("If-Range", Stage.date)], justNow).status == 200)
    }

    @Test("4.3.2: a matching If-None-Match gets 304, whatever the Range")
    func conditionBeforeRange() throws {
        #expect(try servedResponse([("If-None-Match", "\"a\""), ("Range", "bytes=0-1")]).status == 304)
        #expect(try servedResponse([("If-None-Match", "\"b\""), ("Range", "bytes=0-1")]).status == 206)
    }

    @Test("5.2 and 5.2.2.6: a response passes the directives on, and the body unchanged")
    func passedOn() throws {
        let response = [("Cache-Control", "max-age=9, no-transform, unknown=1"), ("Content-Encoding", "gzip")]
        let served = try servedResponse([], response)
        #expect(served.fields.value(for: "Cache-Control") == "max-age=9, no-transform, unknown=1")
        #expect(served.fields.value(for: "Content-Encoding") == "gzip")
        #expect(served.body == 0..<10)
    }
}
