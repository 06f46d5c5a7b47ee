// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSession
import HTTPSessionFoundation
import HTTPSessionStubs
import SessionCore
import TestSupport
import Testing

@Suite("File URLs where a path is taken")
struct FileURLTests {
    @Test("uploads, forms, downloads and cookies take file URLs with escaped characters")
    func files() async throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/100% a b"
        let url = URL(fileURLWithPath: path)
        try Data("the file".utf8).write(to: url)
        let stage = try StubStage()
        try stage.origin.route(.post, "/echo") { .text($0.text) }
        let session = stage.manager.session
        var request = HTTPSessionRequest(url: "\(StubStage.base)/echo", method: .post)

        let upload = try session.uploadTask(with: request, fromFile: url)
        #expect(try await upload.value().data == Array("the file".utf8))

        request.body = .source(try .file(url))
        let file = URL(fileURLWithPath: "\(folder.path)/a copy")
        let download = try session.downloadTask(
            with: request,
            destination: DownloadRequest.downloadDestination(file)
        )
        let copy = try await download.value()
        #expect(try copy.fileURL == file && Data(contentsOf: file) == Data("the file".utf8))

        let form = try await stage.manager.post("/echo", serializer: .string) { body in
            try body.appendFile(url, name: "document", mimeType: "text/plain")
        }
        #expect(form.value.contains("the file") && form.value.contains("100% a b"), "\(form.value)")

        let cookies = try CookieStorage(file: URL(fileURLWithPath: "\(folder.path)/cookies"))
        #expect(cookies.cookies.isEmpty)
        await stage.end()
    }

    @Test(
        "a URL that names no file is refused, whatever its path is",
        arguments: ["https://files.example/etc/hostname", "/etc/hostname"]
    )
    func others(text: String) throws {
        let url = try #require(URL(string: text))
        #expect { try BodySource.file(url) } throws: { ($0 as? SessionError)?.code == .requestInvalid }
        #expect { try DownloadRequest.suggestedDownloadDestination(in: url) } throws: {
            ($0 as? SessionError)?.code == .requestInvalid
        }
        #expect { try CookieStorage(file: url) } throws: { ($0 as? SessionError)?.code == .requestInvalid }
    }
}
