// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

/// An origin that sends what it likes: whatever it says is text in each document, and no more.
@Suite("The admin listener: hostile origins and clients", .onOwnThreads)
struct AdminHostileOriginTests {
    private static let evilHost = "evil.example.com"
    private static let wrongHost = "wrong.example.com"
    /// Markup, the end of a JSON string, lines of an event stream, commands of a terminal, and a turned direction.
    private static let name =
        "<script>alert(1)</script>\"}]\n\ndata: x\r\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}31m\u{202e}\u{2028}"
    private static let user = "<img src=x onerror=alert(1)>\"é"

    private let origin: ScriptedOrigin
    private let settings: ProxySettings

    init() throws {
        var builder = CertificateBuilder.server(hosts: [Self.evilHost, Self.wrongHost], validity: TestPKI.validity)
        builder.subject = [("CN", String(Self.name.prefix(30))), ("O", Self.name)]
        origin = try ScriptedOrigin(try Stage.pki.server(builder), script: Self.play)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["admin"] = ["address": "127.0.0.1:0"]
        settings.members["workers"] = 1
        settings.members["authentication"] = ["bearer": ["file": "tokens"]]
        settings.files["tokens"] = "\(Self.user):\(SecretText.token.digest)\n"
        // The one host is let through, and its certificate is shown; the other one is refused.
        settings.resolve(Self.evilHost, to: origin.port)
        settings.pin(Self.evilHost, to: .unrelated(7), with: ["enforcePinning": false])
        settings.hosts[Self.evilHost]?["redirects"] = ["policy": "follow"]
        settings.resolve(Self.wrongHost, to: origin.port)
        settings.pin(Self.wrongHost, to: .unrelated(7))
        self.settings = settings
    }

    private enum SecretText {
        static let token = (
            text: "open-sesame", digest: "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7"
        )
    }

    /// Answers with what the path names.
    @Sendable private static func play(_ connection: OriginConnection) throws {
        while let request = try connection.readRequest() {
            let line =
                switch request.target {
                case "/reason": "HTTP/1.1 200 <b>\u{1b}[31m\r\nContent-Length: 0\r\n\r\n"
                case "/field": "HTTP/1.1 200 OK\r\nX-<b>: \u{1b}[31m\u{9b}\r\nContent-Length: 0\r\n\r\n"
                case "/location": "HTTP/1.1 302 F\r\nLocation: /<script>\"é\u{202e}\r\nContent-Length: 0\r\n\r\n"
                case "/control": "HTTP/1.1 302 F\r\nLocation: /\u{1b}[31m\r\nContent-Length: 0\r\n\r\n"
                case "/host": "HTTP/1.1 302 F\r\nLocation: https://<b>\u{1b}/\r\nContent-Length: 0\r\n\r\n"
                case "/event": "HTTP/1.1 302 F\r\nLocation: /a%0A%0Adata:%20x\r\nContent-Length: 0\r\n\r\n"
                case "/version": "HTTP/1.1\u{1b}[2J 200 OK\r\n\r\n"
                default: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
                }
            try connection.write(line)
        }
    }

    private static let paths = ["/reason", "/field", "/location", "/control", "/host", "/event", "/version"]
    /// Bytes that a client sends instead of a sensible request.
    private static let requests: [[UInt8]] = [
        Array("GET http://\(evilHost)/'\"<script>?<img%20src=x> HTTP/1.1\r\nHost: \(evilHost)\r\n\r\n".utf8),
        Array("GET http://u<b>:secret@\(evilHost)/ HTTP/1.1\r\nHost: \(evilHost)\r\n\r\n".utf8),
        Array("GET http://<script>/ HTTP/1.1\r\nHost: x\r\n\r\n".utf8),
        Array("<b> http://\(evilHost)/ HTTP/1.1\r\nHost: x\r\n\r\n".utf8),
        Array("M!'`$ http://\(evilHost)/ HTTP/1.1\r\nHost: \(evilHost)\r\n\r\n".utf8),
        Array("GET http://\(evilHost)/".utf8) + [0xFF, 0xFE, 0x1B] + Array(" HTTP/1.1\r\nHost: x\r\n\r\n".utf8),
        Array("GET http://\(evilHost)/ HTTP/1.1\r\nHost: x\"}\n\ndata: x\r\n\r\n".utf8),
        Array("CONNECT <script>:443 HTTP/1.1\r\nHost: x\r\n\r\n".utf8), Array("\u{1b}[2J\r\n\r\n".utf8),
    ]

    /// Sends everything.
    ///
    /// - Parameter connect: makes a connection to the forward listener.
    /// - Returns: the number of tasks that have lines in the log.
    private func attack(_ connect: () throws -> TestClient) throws -> Int {
        let paths = Self.paths.map { (Self.evilHost, $0) } + [(Self.wrongHost, "/")]
        let all = paths.map { Array(ProxyUnderTest.request("GET", "http://\($0)\($1)").utf8) } + Self.requests
        for request in all {
            let client = try connect()
            var text = request
            if let end = text.firstRange(of: Array("\r\n".utf8))?.upperBound {
                let line = "Proxy-Authorization: Bearer \(SecretText.token.text)\r\nConnection: close\r\n"
                text.insert(contentsOf: Array(line.utf8), at: end)
            }
            try client.send(text)
            client.finishSending()
            _ = try client.readToEnd()
        }
        return all.count
    }

    private static func get(_ path: String, from proxy: ProxyUnderTest) throws -> HTTPMessage {
        try proxy.exchange("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
    }

    /// Checks that the bytes of a document are one JSON value in UTF-8 without control characters but line feeds.
    private static func check(_ body: [UInt8], _ path: String) throws {
        try #require(String(validating: body, as: UTF8.self) != nil, "\(path) is UTF-8")
        #expect(throws: Never.self, "\(path)") { try JSONSerialization.jsonObject(with: Data(body)) }
        #expect(!body.contains { $0 < 0x20 && $0 != 10 || $0 == 0x7F }, "\(path) has no control characters")
        let text = String(decoding: body, as: UTF8.self)
        for scalar in ["\u{9b}", "\u{202e}", "\u{2028}"] { #expect(!text.contains(scalar), "\(path)") }
        // The settings say which names are masked.
        let shown = text.replacing("the usual names of secrets", with: "")
        for secret in ["secret", SecretText.token.text, SecretText.token.digest] {
            #expect(!shown.contains(secret), "\(path): \(secret)")
        }
    }

    @Test("each document is JSON in UTF-8, without characters that steer a terminal")
    func documents() throws {
        let proxy = try ProxyUnderTest(settings)
        let count = try attack { try proxy.connect() }
        let tasks = try Patience.poll(for: "\(count) tasks") { () -> HTTPMessage? in
            let tasks = try Self.get("/tasks", from: proxy)
            return tasks.text.split(separator: "\n").count > count ? tasks : nil
        }
        try Self.check(tasks.body, "/tasks")
        #expect(tasks.text.contains("<img src=x onerror=alert(1)>\\\"é"), "the user is there: \(tasks.text)")
        for path in ["/tasks.har", "/config", "/reloads", "/metrics"] {
            let document = try Self.get(path, from: proxy)
            #expect(document.status == 200)
            if path == "/metrics" {
                #expect(!document.text.contains("<script>") && String(validating: document.body, as: UTF8.self) != nil)
            } else {
                try Self.check(document.body, path)
            }
        }
        let policy = try Patience.poll(for: "the keys") { () -> HTTPMessage? in
            let policy = try Self.get("/policy", from: proxy)
            return policy.text.contains("<script>") ? policy : nil
        }
        try Self.check(policy.body, "/policy")
        // Each line of an event is a field of it, and its data are one task.
        let reader = try proxy.connect(to: 1)
        try reader.send("GET /tasks/stream?from=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        var bytes: [UInt8] = []
        while String(decoding: bytes, as: UTF8.self).components(separatedBy: "event: task\n").count <= count {
            let more = try reader.receive()
            try #require(!more.isEmpty)
            bytes += more
        }
        let body = try #require(bytes.firstRange(of: Array("\r\n\r\n".utf8))).upperBound
        let stream = try #require(String(validating: bytes[body...], as: UTF8.self))
        for line in stream.split(whereSeparator: \.isNewline) {
            let isField = ["event: task", "retry: 2000"].contains(line) || line.hasPrefix("id: ")
            if line.hasPrefix("data: {\"time\"") { try Self.check(Array(line.dropFirst(6).utf8), "event") }
            #expect(isField || line.hasPrefix("data: {\"time\""), "\(line)")
        }
    }

    @Test("a task is one line of the text log, without characters that steer terminals")
    func text() throws {
        var settings = settings
        settings.members["admin"] = nil
        settings.members["log"] = ["format": "text"]
        let folder = try TemporaryFolder()
        settings.listeners = [["unixSocket": "\(folder.path)/proxy", "mode": "forward"]]
        let proxy = try ChildProcess(
            try Programs.built("pinproxy"),
            ["run", "--config", try settings.write(to: folder)],
            environment: Programs.environment
        )
        _ = try proxy.waitForErrors("the listener") { $0.contains("listening") ? true : nil }
        let count = try attack { try TestClient(unixPath: "\(folder.path)/proxy") }
        let output = try proxy.waitForOutput("\(count) lines") { output in
            output.split(separator: "\n").count >= count ? output : nil
        }
        #expect(output.split(separator: "\n").count == count)
        for scalar in (output + proxy.errors).unicodeScalars where scalar != "\n" {
            let category = scalar.properties.generalCategory
            #expect(![.control, .format, .lineSeparator, .paragraphSeparator].contains(category), "\(scalar.value)")
        }
        #expect(!output.contains("secret") && !output.contains(SecretText.token.text))
    }
}
