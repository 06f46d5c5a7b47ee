// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTP2Core
import TestSupport
import Testing

@Suite("Hooks for clients that speak HTTP/2", .onOwnThreads)
struct HTTP2HookTests {
    private func peer(_ stage: Stage) throws -> HTTP2Peer { try HTTP2Peer(stage.proxy.connect()) }

    private func stage(
        _ members: [String: Any],
        responding response: @escaping @Sendable (HTTPMessage) -> String
    ) throws -> Stage {
        try Stage(
            {
                HTTP2ClientTests.takeHTTP2(&$0)
                $0.hosts[Stage.host]?.merge(members) { $1 }
            },
            responding: response
        )
    }

    @Test("redirects with bodies of unknown length are followed, on many streams")
    func followed() throws {
        let stage = try stage(["redirects": ["policy": "follow"]]) { request in
            guard request.target != "/start" else {
                return OriginResponse.text("", status: "307 Temporary Redirect", fields: ["Location: /end"])
            }
            return OriginResponse.text("\(request.target) \(request.body.count)")
        }
        let peer = try peer(stage)
        let sizes = [0, 10, 1 << 20, 200 << 10]
        let streams = try sizes.map { size in
            try peer.request("POST", "/start", authority: Stage.host, body: patternBytes(size))
        }
        for (stream, size) in zip(streams, sizes) {
            let response = try peer.finish(stream)
            #expect(response.statuses == [200] && response.text == "/end \(size)")
        }
        let uploads = stage.origin.requests.filter { $0.target == "/end" && $0.body.count == 1 << 20 }
        let isIntact = uploads.count == 1 && uploads[0].body == patternBytes(1 << 20)
        #expect(isIntact)
        let get = try peer.finish(peer.request("GET", "/start", authority: Stage.host))
        #expect(get.text == "/end 0")
    }

    @Test("a refused or truncated response ends its stream alone")
    func refused() throws {
        let members: [String: Any] = [
            "redirects": ["policy": "deny"],
            "responses": ["maxBytes": "100KB", "rules": [["contentType": "text/html", "then": "cancel"]]],
        ]
        let stage = try stage(members) { request in
            let chunk = "8000\r\n\(String(repeating: "x", count: 32 << 10))\r\n"
            switch request.target {
            case "/redirect": return OriginResponse.text("", status: "302 Found", fields: ["Location: /end"])
            case "/html": return OriginResponse.text("x", fields: ["Content-Type: text/html"])
            case "/long":
                return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + String(repeating: chunk, count: 10) + "0\r\n\r\n"
            default: return OriginResponse.text("fine")
            }
        }
        let peer = try peer(stage)
        let redirect = try peer.finish(peer.request("GET", "/redirect", authority: Stage.host))
        #expect(redirect.status == 403 && redirect.text.contains("redirect_denied"))
        let html = try peer.finish(peer.request("GET", "/html", authority: Stage.host))
        #expect(html.status == 502 && html.text.contains("response_denied"))
        let long = try peer.finish(peer.request("GET", "/long", authority: Stage.host))
        // A reset overtakes what was not sent yet.
        #expect(!long.hasEnd && long.closed == .internalError && long.body.count <= 100 << 10)
        #expect(try peer.finish(peer.request("GET", "/", authority: Stage.host)).text == "fine")
    }

    @Test("a response becomes a file, and fields are changed")
    func downloadAndFields() throws {
        let folder = try TemporaryFolder()
        let members: [String: Any] = [
            "responses": ["rules": [["status": 203, "then": "becomeDownload", "directory": folder.path]]],
            "headers": ["request": ["set": ["X-Key": "given"]], "response": ["remove": ["Server"]]],
        ]
        let stage = try stage(members) { request in
            OriginResponse.text(
                request["X-Key"] ?? "none",
                status: request.target == "/file" ? "203 Other" : "200 OK",
                fields: ["Server: x"]
            )
        }
        let peer = try peer(stage)
        let plain = try peer.finish(peer.request("GET", "/", authority: Stage.host))
        #expect(plain.text == "given" && plain.head["server"] == nil)
        let file = try peer.finish(peer.request("GET", "/file", authority: Stage.host))
        #expect(file.status == 201 && file.hasEnd)
        let path = try #require(file.head["location"]).dropFirst("file://".count)
        #expect(try String(contentsOfFile: String(path), encoding: .utf8) == "given")
    }
}
