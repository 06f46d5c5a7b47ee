// SPDX-License-Identifier: Apache-2.0
import Foundation
import IOCore
import Testing

@testable import ProxyAdmin
@testable import ProxyCore

@Suite("The HTTP archive of the latest tasks")
struct TaskArchiveTests {
    private func entries(_ lines: [String]) throws -> [[String: Any]] {
        let recent = RecentTasks()
        let bytes = Array(lines.map { "\($0)\n" }.joined().utf8)
        bytes.withUnsafeBytes { recent.append($0, count: lines.count) }
        let archive = TaskDocuments.archive(recent, limit: 100, version: "1.2.3").withUnsafeBytes { Data($0) }
        let document = try #require(try JSONSerialization.jsonObject(with: archive) as? [String: Any])
        let log = try #require(document["log"] as? [String: Any])
        #expect(log["version"] as? String == "1.2")
        #expect((log["creator"] as? [String: String]) == ["name": "pinproxy", "version": "1.2.3"])
        return try #require(log["entries"] as? [[String: Any]])
    }

    private static let start =
        #""time":"2026-11-21T06:00:00.123Z","event":"task","client":"127.0.0.1:5","method":"GET""#

    @Test("a task is an entry with its phases, whose sum is its time")
    func phases() throws {
        let line = """
            {\(Self.start),"url":"https://a.test/x?a=1&token=***&b","status":200,"bytesSent":0,"bytesReceived":1290,
            "duration":12.4,"pinning":{"mode":"publicKey","verdict":"pass","domain":"a.test","matched":"sha256/x="},
            "transactions":[{"url":"https://a.test/x?a=1&token=***&b","status":200,"fetchStart":0,"domainLookupStart":0.2,
            "domainLookupEnd":0.4,"connectStart":0.4,"secureConnectionStart":0.9,"secureConnectionEnd":3.1,"connectEnd":3.1,
            "requestStart":3.2,"requestEnd":3.3,"responseStart":11.0,"responseEnd":12.3,"requestHeaderBytesSent":181,
            "requestBodyBytesSent":0,"responseHeaderBytesReceived":233,"responseBodyBytesReceived":1290,
            "networkProtocolName":"http/1.1","remoteAddress":"[2001:db8::1]:443"}]}
            """.replacing("\n", with: "")
        let found = try entries([line])
        try #require(found.count == 1)
        let entry = found[0]
        let timings = try #require(entry["timings"] as? [String: Double])
        let expected = [
            "blocked": 0.2, "dns": 0.2, "connect": 2.7, "ssl": 2.2, "send": 0.1, "wait": 7.7, "receive": 1.3,
        ]
        #expect(timings == expected)
        #expect(entry["time"] as? Double == 12.2)
        #expect(entry["startedDateTime"] as? String == "2026-11-21T06:00:00.123Z")
        #expect(entry["serverIPAddress"] as? String == "2001:db8::1")
        #expect(entry["_pinningVerdict"] as? String == "pass" && entry["_pinningMatched"] as? String == "sha256/x=")
        let request = try #require(entry["request"] as? [String: Any])
        #expect(request["method"] as? String == "GET" && request["httpVersion"] as? String == "http/1.1")
        #expect(request["headersSize"] as? Int == 181 && (request["headers"] as? [Any])?.isEmpty == true)
        let query = try #require(request["queryString"] as? [[String: String]])
        #expect(query.map { $0["name"] ?? "" } == ["a", "token", "b"])
        #expect(query.map { $0["value"] ?? "" } == ["1", "***", ""])
        let response = try #require(entry["response"] as? [String: Any])
        #expect(response["status"] as? Int == 200 && response["bodySize"] as? Int == 1290)
        #expect((response["content"] as? [String: Any])?["size"] as? Int == 1290)
    }

    @Test("each hop of a followed redirect is an entry, leading to the next")
    func redirects() throws {
        let line = """
            {\(Self.start),"url":"http://a.test/","status":200,"bytesReceived":3,"duration":1501,"redirectCount":1,
            "transactions":[{"url":"https://a.test/","status":302,"fetchStart":0,"requestStart":1,"requestEnd":2,
            "responseStart":900,"responseEnd":901},{"url":"https://b.test/","status":200,"fetchStart":1000.5,
            "requestStart":1001,"requestEnd":1001,"responseStart":1500,"responseEnd":1501}]}
            """.replacing("\n", with: "")
        let found = try entries([line])
        try #require(found.count == 2)
        #expect(
            found.map { $0["startedDateTime"] as? String } == ["2026-11-21T06:00:00.123Z", "2026-11-21T06:00:01.123Z"]
        )
        let responses = found.compactMap { $0["response"] as? [String: Any] }
        #expect(responses.map { $0["status"] as? Int } == [302, 200])
        #expect(responses.map { $0["redirectURL"] as? String } == ["https://b.test/", ""])
        #expect(
            found.map { ($0["request"] as? [String: Any])?["url"] as? String } == [
                "https://a.test/", "https://b.test/",
            ]
        )
    }

    @Test("a task that was refused or had no server has its real phases")
    func refused() throws {
        let failed = """
            {\(Self.start),"url":"https://a.test/","status":502,"bytesReceived":0,"duration":4,"error":"pin_mismatch",
            "errorDetails":"\\"x\\"","transactions":[{"url":"https://a.test/","fetchStart":0,"connectStart":1,
            "secureConnectionStart":2,"secureConnectionEnd":4,"requestHeaderBytesSent":0}]}
            """.replacing("\n", with: "")
        let stored =
            "{\(Self.start),\"url\":\"https://a.test/\",\"status\":200,\"bytesReceived\":5,\"duration\":0.2,\"cache\":\"hit\"}"
        let found = try entries([failed, "no JSON", stored])
        try #require(found.count == 2)
        #expect(found[0]["_error"] as? String == "pin_mismatch" && found[0]["_errorDetails"] as? String == "\"x\"")
        let timings = found.compactMap { $0["timings"] as? [String: Double] }
        #expect(timings[0] == ["blocked": 1, "dns": -1, "connect": 3, "ssl": 2, "send": 0, "wait": 0, "receive": 0])
        #expect(found[0]["time"] as? Double == 4)
        #expect(
            timings[1] == ["blocked": -1, "dns": -1, "connect": -1, "ssl": -1, "send": 0, "wait": 0.2, "receive": 0]
        )
        #expect(found[1]["_cache"] as? String == "hit" && found[1]["serverIPAddress"] == nil)
    }
}
