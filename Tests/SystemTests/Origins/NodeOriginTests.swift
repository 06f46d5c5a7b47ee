// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Node's http2 sends RST_STREAM(NO_ERROR) in place of END_STREAM when the last byte of a body fills the window.
@Suite("Node's http2 as the origin", .onOwnThreads)
struct NodeOriginTests {
    private static let script = """
        const fs = require("fs");
        const [certificate, key] = process.argv.slice(-2);
        const server = require("http2").createSecureServer({ cert: fs.readFileSync(certificate), key: fs.readFileSync(key) });
        server.on("stream", (stream, headers) => {
            const [, way, length] = headers[":path"].split("/");
            const body = Buffer.alloc(Number(length), "0123456789abcdef!");
            stream.on("error", () => {});
            stream.respond({ ":status": 200, "content-length": body.length });
            if (way === "end") return stream.end(body);
            if (way === "pipe") return require("stream").Readable.from([body]).pipe(stream);
            stream.write(body, () => stream.end());
        });
        server.listen(0, "127.0.0.1", () => console.log(`port ${server.address().port}`));
        """

    /// With `PINPROXY_REQUIRE_CLIENTS=1` a missing Node is a failure.
    private static let isThere =
        ProcessInfo.processInfo.environment["PINPROXY_REQUIRE_CLIENTS"] == "1"
        || (try? Programs.path(of: "node")) != nil

    @Test(
        "bodies around the windows and of 1 MB come whole, repeatedly",
        .enabled(if: isThere),
        arguments: ["end", "write", "pipe"],
        [131_071, 131_072, 131_073, 135_171, 1 << 20]
    )
    func whole(way: String, length: Int) throws {
        let server = try Stage.pki.server(Stage.host)
        let folder = try TemporaryFolder()
        let identity = try server.write(to: folder, name: "server")
        let script = try folder.write(Self.script, as: "origin.js")
        let node = try ChildProcess(Programs.path(of: "node"), [script, identity.certificate, identity.key])
        let port = try node.waitForOutput("its port") { output in
            output.split(separator: "\n").first.flatMap { UInt16($0.dropFirst("port ".count)) }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: port)
        settings.hosts[Stage.host]?["httpVersion"] = "2"
        let proxy = try ProxyUnderTest(settings)
        let pattern = Array("0123456789abcdef!".utf8)
        let body = (0..<length).map { pattern[$0 % pattern.count] }
        let client = try proxy.connect()
        for round in 0..<100 {
            try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/\(way)/\(length)"))
            let response = try client.readResponse()
            let isWhole = response.status == 200 && response.body == body
            try #require(isWhole, "round \(round): \(response.startLine), \(response.body.count) bytes")
        }
        let lines = try proxy.waitForTaskLines(100)
        let isHTTP2 = lines.allSatisfy { $0.transactions.first?["networkProtocolName"] as? String == "h2" }
        #expect(isHTTP2)
    }
}
