// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("What an interrupted download leaves")
struct ResumeDataTests {
    private static func head(_ status: Int, _ fields: [String]) throws -> ResponseHead {
        var head = ResponseHead()
        var parser = ResponseHeadParser()
        for line in ["HTTP/1.1 \(status) X"] + fields + [""] {
            _ = parser.consume(line: Array("\(line)\r\n".utf8).span, answering: .get, into: &head)
        }
        try #require(head.status == status)
        return head
    }

    private static func sample(validator: String = "\"v1\"", total: Int? = 1000) throws -> ResumeData {
        ResumeData(
            url: "https://a.example/x",
            headers: ["Accept": "a, b: c", "Authorization": "Basic secret", "Cookie": "secret=1"],
            fileName: "\(ResumeData.filePrefix)abc.part",
            received: 400,
            checksum: .max,
            validator: validator,
            total: total
        )
    }

    @Test("resume data survives its way through bytes, without credentials", arguments: [1000, nil])
    func roundTrip(total: Int?) throws {
        let data = try Self.sample(total: total)
        let read = try ResumeData(data.bytes)
        #expect(read == data)
        #expect(!String(decoding: data.bytes, as: UTF8.self).contains("secret"))
        let request = try read.request([:])
        #expect(request.url == "https://a.example/x")
        #expect(request.headers.value(for: "Range") == "bytes=400-")
        #expect(request.headers.value(for: "If-Range") == "\"v1\"")
        #expect(request.headers.value(for: "Accept") == "a, b: c")
        let changed = try read.request(["Authorization": "new", "accept": "other"])
        #expect(changed.headers.values(for: "Accept") == ["other"])
        #expect(changed.headers.value(for: "Authorization") == "new")
    }

    @Test("data that no session has made is refused")
    func refusals() throws {
        let good = String(decoding: try Self.sample().bytes, as: UTF8.self)
        let name = "\(ResumeData.filePrefix)abc.part"
        let changes: [(String, String)] = [
            ("data 2", "data 1"), ("data 2", "data 3"), ("checksum: 18446744073709551615\n", ""),
            ("checksum: 1", "checksum: -1"), ("checksum: 1", "checksum: 9"), (name, "../../etc/passwd"),
            (name, "other"), (name, "\(ResumeData.filePrefix)/../x"),
            ("received: 400", "received: -1"), ("received: 400", "received: 0"), ("received: 400", "received: 1001"),
            ("received: 400\n", ""), ("total: 1000", "total: x"), ("url: ", "link: "), ("field: Accept", "field: A b"),
            ("validator: \"v1\"\n", "validator: \n"), ("total: 1000\n", "total: 1000\ntotal: 1000\n"),
        ]
        for (from, to) in changes {
            let bad = good.replacing(from, with: to)
            #expect(bad != good)
            #expect(throws: SessionError.self, "\(from) → \(to)") { try ResumeData(Array(bad.utf8)) }
        }
        // Cut anywhere but between two lines of fields.
        for count in 0..<good.utf8.count - "field: Accept: a, b: c\n".utf8.count - "total: 1000\n".utf8.count {
            #expect(throws: SessionError.self, "\(count)") { try ResumeData(Array(good.utf8.prefix(count))) }
        }
    }

    @Test(
        "a strong entity tag validates, or a date well before the response's",
        arguments: [
            (["ETag: \"a\""], "\"a\""), (["ETag: W/\"a\""], nil), (["ETag: a"], nil), ([], nil),
            (["ETag: \"a\"", "ETag: \"b\""], nil),
            (
                ["Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "Date: Sun, 06 Nov 1994 08:50:37 GMT"],
                "Sun, 06 Nov 1994 08:49:37 GMT"
            ),
            (["Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "Date: Sun, 06 Nov 1994 08:49:50 GMT"], nil),
            (["Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"], nil),
            (["Last-Modified: yesterday", "Date: Sun, 06 Nov 1994 08:49:37 GMT"], nil),
        ] as [([String], String?)]
    )
    func validators(fields: [String], validator: String?) throws {
        #expect(ResumeData.validator(of: try Self.head(200, fields)) == validator)
    }

    @Test(
        "a response to a range request is trusted only where it fits",
        arguments: [
            (206, ["Content-Range: bytes 400-999/1000", "ETag: \"v1\""], .resume(total: 1000)),
            (206, ["Content-Range: Bytes 400-999/*", "ETag: \"v1\""], .resume(total: 1000)),
            (206, ["Content-Range: bytes 400-999/1000", "Content-Length: 600", "ETag: \"v1\""], .resume(total: 1000)),
            (200, [], .startOver), (416, ["Content-Range: bytes */100"], .askForTheWhole),
        ] as [(Int, [String], ResumeData.Decision)]
    )
    func goodResponses(status: Int, fields: [String], judgement: ResumeData.Decision) throws {
        #expect(try Self.sample().decision(on: try Self.head(status, fields)) == judgement)
    }

    @Test(
        "a part that does not fit has the whole requested",
        arguments: [
            [], ["Content-Range: bytes 401-999/1000"], ["Content-Range: bytes 0-999/1000"],
            ["Content-Range: bytes 400-998/1000"], ["Content-Range: bytes 400-1099/1100"],
            ["Content-Range: bytes 400-998/*"], ["Content-Range: bytes 400-999/999"],
            ["Content-Range: items 400-999/1000"], ["Content-Range: bytes 999-400/1000"],
            ["Content-Range: bytes 400-999/1000", "Content-Range: bytes 400-999/1000"],
            ["Content-Range: bytes 400-999/1000", "Content-Length: 599"],
            ["Content-Range: bytes 400-999/1000", "ETag: \"v2\""],
            ["Content-Range: bytes 400-999/1000", "ETag: W/\"v1\""],
            ["Content-Range: bytes 400-999/1000"],
            ["Content-Range: bytes 400-999/1000", "ETag: \"v1\"", "ETag: \"v2\""],
        ]
    )
    func badParts(fields: [String]) throws {
        #expect(try Self.sample().decision(on: try Self.head(206, fields)) == .askForTheWhole)
    }

    @Test("a part with another date than requested is not the rest")
    func dates() throws {
        let data = try Self.sample(validator: "Sun, 06 Nov 1994 08:49:37 GMT")
        let range = "Content-Range: bytes 400-999/1000"
        let same = try Self.head(206, [range, "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"])
        #expect(data.decision(on: same) == .resume(total: 1000))
        #expect(data.decision(on: try Self.head(206, [range])) == .resume(total: 1000))
        let later = try Self.head(206, [range, "Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT"])
        #expect(data.decision(on: later) == .askForTheWhole)
    }

    @Test("any other status fails, so that the partial file is not lost", arguments: [204, 301, 403, 404, 500, 503])
    func otherStatuses(status: Int) throws {
        guard case .fail = try Self.sample().decision(on: try Self.head(status, [])) else {
            Issue.record("taken: \(status)")
            return
        }
    }

    @Test("a part that ends where no length is known is not the rest")
    func endlessPart() throws {
        let data = try Self.sample(total: nil)
        for last in [Int.max - 1, Int.max] {
            let head = try Self.head(206, ["Content-Range: bytes 400-\(last)/*", "ETag: \"v1\""])
            #expect(data.decision(on: head) == (last == Int.max ? .askForTheWhole : .resume(total: Int.max)))
        }
    }

    @Test("without a known length the part gives it")
    func unknownTotal() throws {
        let data = try Self.sample(total: nil)
        for total in ["500", "*"] {
            let head = try Self.head(206, ["Content-Range: bytes 400-499/\(total)", "ETag: \"v1\""])
            #expect(data.decision(on: head) == .resume(total: 500))
        }
    }
}

@Suite("The flow of a download to the disk")
struct WriteFlowTests {
    @Test("a piece is written at once while the disk keeps up, else larger ones")
    func pieces() {
        var flow = WriteFlow()
        #expect(flow.didReceive(100) == WriteFlow.Step(flushes: true))
        #expect(flow.didReceive(100) == WriteFlow.Step())
        #expect(flow.didReceive(100) == WriteFlow.Step())
        #expect(flow.didWrite(100) == WriteFlow.Step(flushes: true))
        #expect(flow.inFlight == 200)
        #expect(flow.didWrite(200) == WriteFlow.Step())
        #expect(
            flow
                == {
                    var end = WriteFlow(); _ = end.didReceive(300); _ = end.didWrite(300); return end
                }()
        )
        _ = flow.didReceive(1)
        #expect(flow.didReceive(WriteFlow.pieceSize).flushes)
    }

    @Test("the origin waits above the high water mark, until half of it is written")
    func marks() {
        var flow = WriteFlow()
        let piece = WriteFlow.pieceSize
        for _ in 0..<4 { #expect(!flow.didReceive(piece).pauses) }
        #expect(flow.didReceive(1).pauses)
        #expect(flow.isPaused)
        // Bytes that were already on the way.
        #expect(!flow.didReceive(1000).pauses)
        #expect(!flow.didWrite(piece).resumes)
        #expect(!flow.didWrite(piece).resumes)
        #expect(flow.didWrite(piece).resumes)
        #expect(!flow.isPaused)
    }
}
