// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Coded responses of data tasks", .onOwnThreads)
struct ContentCodingTests {
    private static let url = ManagerStage.url("/")

    private static func response(_ body: [UInt8], _ fields: String...) -> [UInt8] {
        let lines = fields.map { $0 + "\r\n" }.joined()
        return Array("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\(lines)\r\n".utf8) + body
    }

    private func stage(
        _ bytes: [UInt8],
        _ change: (inout URLSessionManager.Configuration) -> Void = { _ in }
    ) throws -> ManagerStage {
        try ManagerStage(change) { connection in
            while try connection.readRequest() != nil { try connection.write(bytes) }
        }
    }

    @Test(
        "a data task requests codings and delivers decoded bodies",
        arguments: [("gzip", CodedBody.gzip), ("X-GZip", CodedBody.gzip), ("deflate", CodedBody.raw)]
    )
    func decodes(_ coding: String, _ body: [UInt8]) async throws {
        let stage = try stage(Self.response(body, "Content-Encoding: \(coding)"))
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        let response = try await task.value()
        #expect(response.data == CodedBody.text)
        #expect(task.countOfBytesReceived == Int64(CodedBody.text.count))
        #expect(task.countOfBytesExpectedToReceive == nil)
        #expect(stage.origin.requests.first?["Accept-Encoding"] == "gzip, deflate")
        await stage.end()
    }

    @Test("the response to an upload is decoded too; an uncoded one stays")
    func others() async throws {
        let stage = try stage(Self.response(CodedBody.gzip, "Content-Encoding: gzip"))
        let upload = try stage.manager.uploadTask(with: HTTPSessionRequest(url: Self.url, method: .post), from: [1, 2])
        #expect(try await upload.value().data == CodedBody.text)
        await stage.end()
        let plain = try self.stage(Self.response(CodedBody.text))
        let task = try plain.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        #expect(try await task.value().data == CodedBody.text)
        #expect(task.countOfBytesExpectedToReceive == Int64(CodedBody.text.count))
        await plain.end()
    }

    @Test("requests with their own Accept-Encoding or Range get what the server sends")
    func leftAlone() async throws {
        let stage = try stage(Self.response(CodedBody.gzip, "Content-Encoding: gzip"))
        for field in [("Accept-Encoding", "gzip"), ("Range", "bytes=0-")] {
            var request = HTTPSessionRequest(url: Self.url)
            try request.headers.setForRequest(field.0, field.1)
            #expect(try await stage.manager.dataTask(with: request).value().data == CodedBody.gzip)
        }
        #expect(stage.origin.requests.last?["Accept-Encoding"] == nil)
        await stage.end()
        let off = try self.stage(Self.response(CodedBody.gzip, "Content-Encoding: gzip")) { $0.decodesContent = false }
        #expect(try await off.manager.dataTask(with: HTTPSessionRequest(url: Self.url)).value().data == CodedBody.gzip)
        #expect(off.origin.requests.first?["Accept-Encoding"] == nil)
        await off.end()
    }

    @Test("two codings are decoded in reverse order; bytes behind them are ignored")
    func two() async throws {
        func coded(_ first: ContentCoding, _ second: ContentCoding) throws -> [UInt8] {
            let once = try #require(Deflater.compress(CodedBody.text, first))
            return try #require(Deflater.compress(once, second))
        }
        for (body, fields) in [
            (try coded(.gzip, .gzip), "Content-Encoding: gzip, gzip"),
            (try coded(.gzip, .gzip), "Content-Encoding: gzip\r\nContent-Encoding: X-Gzip"),
            (try coded(.deflate, .gzip), "Content-Encoding: Deflate ,identity,, gzip"),
            (try coded(.gzip, .gzip) + [0, 0], "Content-Encoding: gzip,gzip"),
            (CodedBody.text, "Content-Encoding: identity"),
        ] {
            let stage = try stage(Self.response(body, fields))
            let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
            #expect(try await task.value().data == CodedBody.text, "\(fields)")
            await stage.end()
        }
    }

    @Test("two codings expand a piece no more than one could")
    func twofold() async throws {
        let inner = CodedBody.deflated([UInt8](repeating: 0, count: 200 << 20))
        let body = try #require(Deflater.compress(inner, .gzip))
        let stage = try stage(Self.response(body, "Content-Encoding: deflate, gzip")) { $0.maximumBodySize = 1 << 30 }
        await #expect { try await stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url)).value() } throws: {
            $0.sessionCode == .responseTooLarge
        }
        await stage.end()
    }

    @Test("more than two codings, and unrequested ones, are left to the caller")
    func unknown() async throws {
        for fields in [
            ["Content-Encoding: gzip, gzip, gzip"], ["Content-Encoding: br, gzip"], ["Content-Encoding: br"],
        ] {
            let stage = try stage(Self.response(CodedBody.gzip, fields[0]))
            #expect(
                try await stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url)).value().data == CodedBody.gzip
            )
            await stage.end()
        }
    }

    @Test("a response without a body has no coding to decode")
    func noBody() async throws {
        let stage = try ManagerStage { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 53\r\nContent-Encoding: gzip\r\n\r\n")
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Encoding: gzip\r\n\r\n")
        }
        let head = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url, method: .head))
        #expect(try await head.value().data == [])
        #expect(try await stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url)).value().data == [])
        await stage.end()
    }

    @Test("a broken coding and one that is cut off fail the task")
    func broken() async throws {
        let cut = try stage(Self.response(Array(CodedBody.gzip.dropLast(9)), "Content-Encoding: gzip"))
        await #expect { try await cut.manager.dataTask(with: HTTPSessionRequest(url: Self.url)).value() } throws: {
            $0.sessionCode == .responseTruncated
        }
        await cut.end()
        let other = try stage(Self.response(CodedBody.text, "Content-Encoding: gzip"))
        await #expect { try await other.manager.dataTask(with: HTTPSessionRequest(url: Self.url)).value() } throws: {
            $0.sessionCode == .responseInvalid
        }
        await other.end()
    }

    @Test("the decoded size counts for the limit on collected bodies")
    func bound() async throws {
        let bomb = CodedBody.deflated([UInt8](repeating: 0, count: 4 << 20))
        let stage = try stage(Self.response(bomb, "Content-Encoding: deflate")) { $0.maximumBodySize = 1 << 20 }
        #expect(bomb.count < 10_000)
        await #expect { try await stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url)).value() } throws: {
            $0.sessionCode == .responseTooLarge
        }
        await stage.end()
    }

    @Test("a download requests no coding; a data task that becomes one is decoded")
    func downloads() async throws {
        let folder = try TemporaryFolder()
        let stage = try stage(Self.response(CodedBody.gzip, "Content-Encoding: gzip")) {
            $0.temporaryFolder = folder.path
        }
        let target = "\(folder.path)/file"
        let download = try stage.manager.downloadTask(with: HTTPSessionRequest(url: Self.url)) { _, _ in (target, []) }
        _ = try await download.value()
        #expect(stage.origin.requests.first?["Accept-Encoding"] == nil)
        #expect(try [UInt8](Data(contentsOf: URL(fileURLWithPath: target))) == CodedBody.gzip)

        let other = "\(folder.path)/other"
        stage.manager.dataTaskDidReceiveResponse = { _, _ in .becomeDownload }
        stage.manager.dataTaskDidBecomeDownloadTask = { [stage] _, download in
            download.downloadDelegate.destination = { _, _ in (other, []) }
            download.delegate.queue.add { [stage] in stage.note("moved") }
        }
        try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url)).resume()
        _ = try await stage.wait(for: "moved")
        #expect(try [UInt8](Data(contentsOf: URL(fileURLWithPath: other))) == CodedBody.text)
        await stage.end()
    }
}
