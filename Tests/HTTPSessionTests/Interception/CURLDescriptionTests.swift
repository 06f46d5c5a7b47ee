// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Requests as curl commands", .onOwnThreads)
struct CURLDescriptionTests {
    private static func request(
        _ method: HTTPMethod,
        _ url: String,
        _ fields: [(String, String)] = [],
        _ body: RequestBody = .none
    ) -> HTTPSessionRequest {
        var request = HTTPSessionRequest(url: url, method: method, body: body)
        for (name, value) in fields { request.headers.append(name: name, value: value) }
        return request
    }

    @Test("a GET is the URL alone")
    func get() {
        let request = Self.request(.get, "https://example.com/a?b=c&d", [("Accept", "text/plain")])
        #expect(
            request.cURLDescription()
                == "curl --header 'Accept: text/plain' --globoff --path-as-is 'https://example.com/a?b=c&d'"
        )
    }

    @Test(
        "credentials stay out, unless they are asked for",
        arguments: ["Authorization", "Cookie", "proxy-authorization"]
    )
    func secrets(name: String) {
        let request = Self.request(.get, "https://example.com/", [(name, "s3cret")])
        #expect(!request.cURLDescription().contains("s3cret"))
        #expect(request.cURLDescription().contains("\(name): ***"))
        #expect(request.cURLDescription(redactingSecrets: false).contains("\(name): s3cret"))
    }

    @Test("curl makes the same request of it, quotes, brackets and bytes included")
    func sameRequest() async throws {
        let origin = try ScriptedOrigin(nil) { _ in OriginResponse.text("ok") }
        let url = "http://127.0.0.1:\(origin.port)/a/../b?c[]={1,2}&d=%20"
        let folder = try TemporaryFolder()
        let file = patternBytes(100_000)
        try Data(file).write(to: URL(fileURLWithPath: folder.path + "/body"))
        let requests: [HTTPSessionRequest] = [
            Self.request(.get, url, [("X-Quote", #"it's "$HOME" \n `id`"#), ("X-Empty", ""), ("Authorization", "t")]),
            Self.request(.post, url, [("Content-Type", "text/plain")], .bytes(Array("@it's\n\tü $x".utf8))),
            Self.request(.put, url, [], .bytes(Array(UInt8.min...UInt8.max))),
            Self.request(.delete, url), Self.request(.head, url),
            Self.request(.get, url, [("Content-Type", "a/b")], .bytes([])),
            Self.request(.patch, url, [("Content-Type", "a/b")], .source(try .file(folder.path + "/body"))),
        ]
        for (number, request) in requests.enumerated() {
            let shell = Process()
            shell.executableURL = URL(fileURLWithPath: "/bin/sh")
            let command = request.cURLDescription(redactingSecrets: false)
            shell.arguments = ["-c", command + " --silent --show-error --noproxy '*'"]
            shell.currentDirectoryURL = URL(fileURLWithPath: folder.path)
            shell.standardOutput = FileHandle.nullDevice
            try shell.run()
            shell.waitUntilExit()
            #expect(shell.terminationStatus == 0)
            let seen = try #require(origin.requests.count == number + 1 ? origin.requests.last : nil)
            #expect(seen.method == request.method.description)
            #expect(seen.target == "/a/../b?c%5B%5D=%7B1,2%7D&d=%20")
            for (name, value) in request.headers { #expect(seen[name] == value) }
            if request.headers.value(for: "Content-Type") == nil { #expect(seen["Content-Type"] == nil) }
            let isSame = try await request.body.collect() == seen.body
            #expect(isSame)
        }
    }

    @Test("a form is the file body, with the form's own type and boundary")
    func form() throws {
        var form = try MultipartFormData(boundary: "B0undary")
        try form.append("Ada", name: "name")
        try form.append(.bytes([0, 1, 2]), name: "file", fileName: "f.bin", mimeType: "application/octet-stream")
        let text = try form.request(.post, "https://example.com/").cURLDescription()
        #expect(text.contains("--request 'POST'"))
        #expect(text.contains("--header 'Content-Type: multipart/form-data; boundary=B0undary'"))
        #expect(text.hasSuffix("--data-binary @body --globoff --path-as-is 'https://example.com/'"))
    }

    @Test("a repeated field is repeated for curl, which sends both")
    func repeatedFields() throws {
        let origin = try ScriptedOrigin(nil) { _ in OriginResponse.text("ok") }
        let fields = [("X-Twice", "one"), ("X-Other", "o"), ("x-twice", "two")]
        let command = Self.request(.get, "http://127.0.0.1:\(origin.port)/", fields).cURLDescription()
        #expect(command.contains("--header 'X-Twice: one' --header 'X-Other: o' --header 'x-twice: two'"))
        let finished = try Programs.run("/bin/sh", ["-c", command + " --silent --show-error --noproxy '*'"])
        #expect(finished.exitCode == 0, "\(finished.errors)")
        let seen = try #require(origin.requests.first)
        #expect(seen.fields.filter { $0.name.lowercased() == "x-twice" }.map(\.value) == ["one", "two"])
    }

    @Test("a request of a manager is described as its adapters have made it")
    func adapted() async throws {
        let adapter = Adapter { request, _ in
            var request = request
            request.headers["X-Adapted"] = "yes"
            return request
        }
        let stage = try HTTPStage(interceptor: adapter, responding: HTTPStage.echo)
        let request = try stage.manager.request(.get, "x")
        #expect(!request.cURLDescription().contains("X-Adapted"))
        _ = try await request.response(serializer: JSONResponseSerializer())
        #expect(request.cURLDescription().contains("--header 'X-Adapted: yes'"))
        await stage.end()
    }
}
