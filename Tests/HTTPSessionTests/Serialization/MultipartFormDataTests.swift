// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Multipart forms", .onOwnThreads)
struct MultipartFormDataTests {
    private static func form() throws -> MultipartFormData { try MultipartFormData(boundary: "B") }

    private static func text(_ form: MultipartFormData) async throws -> String {
        String(decoding: try await form.body.collect(), as: UTF8.self)
    }

    @Test("a data part has a head, the data and a line break")
    func onePart() async throws {
        var form = try Self.form()
        try form.append("value", name: "field")
        let expected = "--B\r\nContent-Disposition: form-data; name=\"field\"\r\n\r\nvalue\r\n--B--\r\n"
        #expect(try await Self.text(form) == expected)
        #expect(form.contentLength == expected.utf8.count)
        #expect(form.contentType == "multipart/form-data; boundary=B")
    }

    @Test("parts follow in order, with file name and type where given")
    func severalParts() async throws {
        var form = try Self.form()
        try form.append("", name: "empty")
        try form.append(.bytes([0, 1, 2]), name: "data", fileName: "a.bin", mimeType: "application/octet-stream")
        try form.append(.none, name: "none", mimeType: "text/csv")
        let expected = """
            --B\r
            Content-Disposition: form-data; name="empty"\r
            \r
            \r
            --B\r
            Content-Disposition: form-data; name="data"; filename="a.bin"\r
            Content-Type: application/octet-stream\r
            \r
            \0\u{1}\u{2}\r
            --B\r
            Content-Disposition: form-data; name="none"\r
            Content-Type: text/csv\r
            \r
            \r
            --B--\r

            """
        #expect(try await Self.text(form) == expected)
        #expect(form.contentLength == expected.utf8.count)
        #expect(form.count == 3)
    }

    @Test("a form without parts is an empty body")
    func noParts() async throws {
        let form = MultipartFormData()
        #expect(form.contentLength == 0)
        #expect(try await form.body.collect() == [])
    }

    @Test("boundaries cannot be guessed: they are long, and never the same")
    func boundaries() {
        let boundaries = Set((0..<100).map { _ in MultipartFormData().boundary })
        #expect(boundaries.count == 100)
        #expect(boundaries.allSatisfy { $0.utf8.count == "SessionCore.boundary.".utf8.count + 32 })
    }

    @Test("a boundary of the program's own is checked, and quoted where needed")
    func ownBoundary() throws {
        #expect(try MultipartFormData(boundary: "a=b/c").contentType == "multipart/form-data; boundary=\"a=b/c\"")
        for boundary in ["", String(repeating: "x", count: 71), "a b", "a\"b", "a\r\nb", "ä"] {
            #expect(throws: SessionError.self) { try MultipartFormData(boundary: boundary) }
        }
    }

    @Test(
        "names cannot break out of their field",
        arguments: [
            ("a\"; filename=\"x", "a%22; filename=%22x"),
            ("a\r\nX-Evil: 1\r\n\r\nbody", "a%0D%0AX-Evil: 1%0D%0A%0D%0Abody"),
            ("a\nb", "a%0Ab"), ("ünïcode 😀", "ünïcode 😀"), ("back\\slash", "back\\slash"), ("100%", "100%"),
        ]
    )
    func injection(name: String, escaped: String) async throws {
        var form = try Self.form()
        try form.append(.bytes([]), name: name, fileName: name)
        let expected =
            "--B\r\nContent-Disposition: form-data; name=\"\(escaped)\"; filename=\"\(escaped)\"\r\n\r\n\r\n--B--\r\n"
        #expect(try await Self.text(form) == expected)
    }

    @Test("control characters in names and line breaks in types are refused")
    func refusedNames() throws {
        var form = MultipartFormData()
        #expect(throws: SessionError.self) { try form.append("", name: "a\0") }
        #expect(throws: SessionError.self) { try form.append(.none, name: "a", fileName: "\u{1B}[31m") }
        #expect(throws: SessionError.self) { try form.append(.none, name: "a", mimeType: "text/plain\r\nX: y") }
        #expect(form.count == 0)
    }

    @Test("a part may have fields of its own")
    func ownFields() async throws {
        var form = try Self.form()
        let headers: HTTPHeaders = ["Content-Disposition": "attachment; name=x", "X-Own": "1"]
        try form.append(.bytes(Array("y".utf8)), headers: headers)
        #expect(throws: SessionError.self) { try form.append(.none, headers: ["X-Line": "a\nb"]) }
        #expect(
            try await Self.text(form)
                == "--B\r\nContent-Disposition: attachment; name=x\r\nX-Own: 1\r\n\r\ny\r\n--B--\r\n"
        )
    }

    // MARK: Files

    @Test("a file brings its name, its type and its bytes in pieces")
    func files() async throws {
        let folder = try TemporaryFolder()
        let content = patternBytes(300_000)
        let path = folder.path + "/photo.JPG"
        try Data(content).write(to: URL(fileURLWithPath: path))
        var form = try Self.form()
        try form.appendFile(path, name: "photo")
        try form.appendFile(path, name: "again", fileName: "other", mimeType: "x/y")
        guard case .source(let source) = form.body else {
            Issue.record("the form is in memory")
            return
        }
        let reader = try source.open()
        var all: [UInt8] = []
        while true {
            let piece = try await reader.read(atMost: 1000)
            #expect(piece.count <= 1000)
            if piece.isEmpty { break }
            all += piece
        }
        let first =
            "--B\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"photo.JPG\"\r\nContent-Type: image/jpeg\r\n\r\n"
        let second =
            "\r\n--B\r\nContent-Disposition: form-data; name=\"again\"; filename=\"other\"\r\nContent-Type: x/y\r\n\r\n"
        let expected = Array(first.utf8) + content + Array(second.utf8) + content + Array("\r\n--B--\r\n".utf8)
        let isWhole = all == expected
        #expect(isWhole)
        #expect(form.contentLength == expected.count)
        let again = try await form.body.collect() == expected
        #expect(again)
    }

    @Test(
        "an unreadable file is refused when it is added",
        arguments: ["/missing", "", "/folder", "/pipe", "/a\0b"]
    )
    func noFiles(name: String) throws {
        let folder = try TemporaryFolder()
        try FileManager.default.createDirectory(atPath: folder.path + "/folder", withIntermediateDirectories: false)
        #expect(mkfifo(folder.path + "/pipe", 0o600) == 0)
        var form = MultipartFormData()
        let error = #expect(throws: SessionError.self) {
            try form.appendFile(name.isEmpty ? "" : folder.path + name, name: "x")
        }
        #expect(error?.code == .requestInvalid)
        #expect(form.count == 0)
    }

    @Test("a grown file is sent at its former length, and a shrunk one fails")
    func changedFiles() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/file"
        try Data("12345".utf8).write(to: URL(fileURLWithPath: path))
        let source = try BodySource.file(path)
        #expect(source.length == 5)
        try Data("1234567".utf8).write(to: URL(fileURLWithPath: path))
        #expect(try await RequestBody.source(source).collect() == Array("12345".utf8))
        try Data("123".utf8).write(to: URL(fileURLWithPath: path))
        await #expect(throws: SessionError.self) { try await RequestBody.source(source).collect() }
        try FileManager.default.removeItem(atPath: path)
        await #expect(throws: SessionError.self) { try await RequestBody.source(source).collect() }
    }

    @Test(
        "types go by the letters behind the last dot",
        arguments: [
            ("a.png", "image/png"), ("/x/y.tar.gz", "application/gzip"), ("A.PDF", "application/pdf"),
            ("none", MIMETypes.unknown),
            (".json", MIMETypes.unknown), ("dir.json/file", MIMETypes.unknown), ("a.", MIMETypes.unknown),
            ("a.unheard-of", MIMETypes.unknown), ("", MIMETypes.unknown), ("s.svg", "image/svg+xml"),
        ]
    )
    func types(name: String, type: String) {
        #expect(MIMETypes.type(ofFileNamed: name) == type)
    }

    // MARK: Sources

    private static func pieces(_ pieces: [[UInt8]]) -> AsyncStream<[UInt8]> {
        AsyncStream { continuation in
            for piece in pieces { continuation.yield(piece) }
            continuation.finish()
        }
    }

    @Test("a source of unknown length makes the form's length unknown; of known length, known")
    func sources() async throws {
        var form = try Self.form()
        try form.append(.source(.sequence(Self.pieces([[1], [], [2, 3]]))), name: "s")
        #expect(form.contentLength == nil)
        let head = "--B\r\nContent-Disposition: form-data; name=\"s\"\r\n\r\n"
        #expect(try await Self.text(form) == head + "\u{1}\u{2}\u{3}\r\n--B--\r\n")
        var known = try Self.form()
        try known.append(.source(.sequence(Self.pieces([[1], [2, 3]]), length: 3)), name: "s")
        let length = try #require(known.contentLength)
        #expect(try await known.body.collect().count == length)
    }

    @Test("Lengths whose sum is too large for a number make the form's length unknown")
    func hugeLengths() throws {
        var form = try Self.form()
        for name in ["a", "b", "c"] {
            try form.append(.source(.sequence(Self.pieces([[1]]), length: .max / 2)), name: name)
        }
        #expect(form.contentLength == nil)
    }

    @Test("a source that gives more or fewer bytes than it says fails the form", arguments: [2, 4])
    func wrongLength(length: Int) async throws {
        var form = MultipartFormData()
        try form.append(.source(.sequence(Self.pieces([[1, 2], [3]]), length: length)), name: "s")
        await #expect(throws: SessionError.self) { try await form.body.collect() }
    }

    @Test("a sequence is read once: a second reading is an error")
    func readOnce() async throws {
        let body = RequestBody.source(.sequence(Self.pieces([[1, 2]])))
        #expect(try await body.collect() == [1, 2])
        await #expect(throws: SessionError.self) { try await body.collect() }
    }

    @Test("a body that is collected has a bound")
    func bound() async throws {
        let body = RequestBody.source(.sequence(Self.pieces([[1, 2], [3]])))
        await #expect(throws: SessionError.self) { try await body.collect(limit: 2) }
    }

    // MARK: Requests

    @Test("parameters become parts before those of the closure, with names as in queries")
    func parameters() async throws {
        var request = try HTTPRequestSerializer()
            .multipartFormRequest(.post, "https://a.example/", parameters: ["b": ["x y", nil], "a": true]) {
                form in
                try form.append("last", name: "own")
            }
        let type = try #require(request.headers.value(for: "Content-Type"))
        #expect(type.hasPrefix("multipart/form-data; boundary=SessionCore.boundary."))
        let text = String(decoding: try await request.body.collect(), as: UTF8.self)
        let names = text.split(separator: "\r\n").filter { $0.hasPrefix("Content-Disposition") }
        #expect(names.map { $0.split(separator: "\"")[1] } == ["a", "b[]", "b[]", "own"])
        #expect(text.contains("name=\"b[]\"\r\n\r\nx y\r\n"))
        #expect(request.headers.value(for: "User-Agent") != nil)
        request = try MultipartFormData().request(.put, "https://a.example/")
        #expect(request.method == .put)
    }

    @Test("GET and HEAD carry no form, and parameters of one are a dictionary")
    func refusedRequests() {
        for method in [HTTPMethod.get, .head] {
            #expect(throws: SessionError.self) {
                try HTTPRequestSerializer().multipartFormRequest(method, "https://a.example/") {
                    _ throws(SessionError) in
                }
            }
        }
        #expect(throws: SessionError.self) {
            try HTTPRequestSerializer().multipartFormRequest(.post, "https://a.example/", parameters: [1]) {
                _ throws(SessionError) in
            }
        }
    }
}
