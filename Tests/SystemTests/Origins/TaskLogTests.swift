// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("The task log", .onOwnThreads)
struct TaskLogTests {
    @Test("the line of a successful request has the documented fields")
    func success() throws {
        let stage = try Stage({ $0.members["workers"] = 1 }) { OriginResponse.text("got \($0.text)") }
        let before = Date()
        let text = ProxyUnderTest.request("POST", stage.url("/v1?a=b"), body: "four")
        #expect(try stage.proxy.exchange(text, method: "POST").status == 200)
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)

        let formatter = ISO8601DateFormatter()
        formatter.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
        let time = try #require(line.string("time").flatMap { formatter.date(from: $0) })
        #expect(time > before.addingTimeInterval(-1) && time < Date().addingTimeInterval(1))
        #expect(line.string("time")?.hasSuffix("Z") == true)
        #expect((line.integer("taskIdentifier") ?? 0) > 0)
        #expect(line.string("client")?.hasPrefix("127.0.0.1:") == true)
        #expect(line.string("method") == "POST")
        #expect(line.string("url") == "https://\(Stage.host)/v1?a=b")
        #expect(line.integer("status") == 200)
        #expect(line.integer("bytesSent") == 4)
        #expect(line.integer("bytesReceived") == 8)
        #expect((line.number("duration") ?? 0) > 0)
        #expect(line.integer("redirectCount") == 0)
        #expect(line["error"] == nil && line["errorDetails"] == nil && line["cache"] == nil)
        let pinning = try #require(line.object("pinning"))
        #expect(pinning["mode"] as? String == "publicKey")
        #expect(pinning["verdict"] as? String == "pass")
        #expect(pinning["domain"] as? String == Stage.host)
        #expect(pinning["matched"] as? String == "\(stage.server.pin)")

        let transaction = try #require(line.transactions.first)
        #expect(line.transactions.count == 1)
        #expect(transaction["url"] as? String == "https://\(Stage.host)/v1?a=b")
        #expect(transaction["status"] as? Int == 200)
        #expect(transaction["networkProtocolName"] as? String == "http/1.1")
        #expect(transaction["reusedConnection"] as? Bool == false)
        #expect(transaction["remoteAddress"] as? String == "127.0.0.1:\(stage.origin.port)")
        #expect(transaction["tlsVersion"] as? String == "TLSv1.3")
        #expect((transaction["cipher"] as? String)?.hasPrefix("TLS_") == true)
        #expect((transaction["tlsGroup"] as? String)?.hasPrefix("X25519") == true)
        // The validated chain: the root was not sent.
        let keys = stage.server.chain.map(\.publicKeyPin) + [Stage.pki.root.certificate.publicKeyPin]
        #expect(transaction["offeredPins"] as? [String] == keys.map(\.description))
        #expect(transaction["requestBodyBytesSent"] as? Int == 4)
        #expect(transaction["responseBodyBytesReceived"] as? Int == 8)
        let request = try #require(stage.origin.requests.first)
        let headBytes =
            request.startLine.utf8.count + 4
            + request.fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 }
        #expect(transaction["requestHeaderBytesSent"] as? Int == headBytes)
        #expect((transaction["responseHeaderBytesReceived"] as? Int ?? 0) > 50)
        let phases = [
            "fetchStart", "domainLookupStart", "domainLookupEnd", "connectStart", "secureConnectionStart",
            "secureConnectionEnd", "connectEnd", "requestStart", "requestEnd", "responseStart", "responseEnd",
        ]
        let times = phases.map { (transaction[$0] as? NSNumber)?.doubleValue }
        #expect(times.allSatisfy { $0 != nil }, "\(line.text)")
        #expect(times.compactMap { $0 } == times.compactMap { $0 }.sorted(), "\(line.text)")
        #expect((times.last ?? nil) ?? 0 <= (line.number("duration") ?? 0) + 0.001)
    }

    @Test("a reused connection has no connecting phases, and repeats the verdict")
    func reused() throws {
        let stage = try Stage({ $0.members["workers"] = 1 }) { OriginResponse.text($0.target) }
        for _ in 0..<2 { #expect(try stage.get().status == 200) }
        let line = try #require(try stage.proxy.waitForTaskLines(2).last)
        let transaction = try #require(line.transactions.first)
        #expect(transaction["reusedConnection"] as? Bool == true)
        for phase in ["domainLookupStart", "connectStart", "secureConnectionStart", "connectEnd"] {
            #expect(transaction[phase] == nil, "\(phase)")
        }
        #expect(transaction["tlsVersion"] as? String == "TLSv1.3")
        #expect(transaction["offeredPins"] == nil)
        #expect(line.object("pinning")?["verdict"] as? String == "pass")
    }

    @Test("the line of a refused server says why, and that nothing was sent")
    func refusedServer() throws {
        let stage = try Stage({ $0.pin(Stage.host, to: .unrelated(2)) }) { OriginResponse.text($0.target) }
        #expect(try stage.get("/v1").status == 502)
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.integer("status") == 502)
        #expect(line.string("error") == "pin_mismatch")
        #expect(line.string("errorDetails")?.isEmpty == false)
        #expect(line.integer("bytesReceived") == 0)
        #expect(line.object("pinning")?["verdict"] as? String == "fail")
        #expect(line.object("pinning")?["matched"] == nil)
        let transaction = try #require(line.transactions.first)
        #expect(transaction["requestHeaderBytesSent"] as? Int == 0)
        #expect(transaction["requestStart"] == nil)
        #expect(transaction["responseStart"] == nil)
        // Refused requests are the ones that an operator wants to see.
        #expect((transaction["offeredPins"] as? [String])?.first == "\(stage.server.pin)")
    }

    @Test("requests that are refused before there is a task have a line, too")
    func refusedRequest() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        _ = try stage.proxy.exchange("GET  / HTTP/1.1\r\n\r\n")
        _ = try stage.proxy.exchange("CONNECT x.example.com:443 HTTP/1.1\r\nHost: x.example.com:443\r\n\r\n")
        let lines = try stage.proxy.waitForTaskLines(2)
        let byStatus = lines.sorted { ($0.integer("status") ?? 0) < ($1.integer("status") ?? 0) }
        #expect(byStatus.map { $0.integer("status") } == [400, 403])
        #expect(byStatus.map { $0.string("error") } == ["request_invalid", "connect_denied"])
        #expect(byStatus[1].string("method") == "CONNECT")
        #expect(lines.allSatisfy { $0["taskIdentifier"] == nil && $0.transactions.isEmpty })
    }

    @Test("secrets reach neither log nor error output")
    func secrets() throws {
        let stage = try Stage({ $0.members["log"] = ["tasks": "stdout", "redact": ["access_token", "key"]] }) {
            OriginResponse.text($0.target)
        }
        let secret = "s3cr3t"
        let encoded = "access%5Ftoken=\(secret)&%6b%65%79=\(secret)"
        let query = "/p?access_token=\(secret)&a=1&KEY=\(secret)&key=\(secret)&\(encoded)&keyless=kept&key"
        let passed = try stage.get(
            query,
            fields: [
                "Authorization: Bearer \(secret)", "Cookie: session=\(secret)", "Proxy-Authorization: Basic \(secret)",
            ]
        )
        // The origin gets what the client sent.
        #expect(passed.text == query)
        #expect(stage.origin.requests.first?["Authorization"] == "Bearer \(secret)")
        for (line, status) in [
            ("http://user:\(secret)@\(Stage.host)/", 200), ("http://\(secret)@\(Stage.host)/", 200),
            ("http://\(Stage.host)/#\(secret)", 200), ("http://user%40:\(secret)@\(Stage.host)/", 400),
            ("http://user:\(secret)@other@\(Stage.host)/", 400), ("ws://user:\(secret)@\(Stage.host)/", 400),
            ("http://denied.example.com:99999/?key=\(secret)", 400),
        ] {
            let text = "GET \(line) HTTP/1.1\r\nHost: \(Stage.host)\r\n\r\n"
            #expect(try stage.proxy.exchange(text).status == status, "\(line)")
        }
        let odd = "GET http://\(Stage.host)/?key=\(secret) HTTP/1.1\r\nHost: other.example.com\r\n"
        #expect(try stage.proxy.exchange(odd + "\r\n").status == 200)
        #expect(try stage.proxy.exchange(odd + "Authorization : \(secret)\r\n\r\n").status == 400)
        let lines = try stage.proxy.waitForTaskLines(10)
        let names = "access_token=***&a=1&KEY=***&key=***&access%5Ftoken=***&%6b%65%79=***&keyless=kept&key"
        let masked = "https://\(Stage.host)/p?\(names)"
        #expect(lines.contains { $0.string("url") == masked }, "\(lines.map(\.text))")
        #expect(!stage.proxy.output.contains(secret), "\(stage.proxy.output)")
        #expect(!stage.proxy.errors.contains(secret))
    }

    @Test("a parameter is masked in every form that an origin may read")
    func formsOfNames() throws {
        let stage = try Stage({ $0.members["log"] = ["tasks": "stdout", "redact": ["tok", "Access-Token"]] }) {
            OriginResponse.text($0.target)
        }
        let secret = "s3cr3t"
        let forms = [
            "/p?a=1;tok=\(secret)": "/p?a=1;tok=***", "/p?tok[]=\(secret)&b=2": "/p?tok[]=***&b=2",
            "/p?tok%5b1%5D=\(secret)&tokens=3": "/p?tok%5b1%5D=***&tokens=3",
            "/p?%54o%6B=\(secret);x/\(secret)?y=\(secret)&c=4": "/p?%54o%6B=***&c=4",
            "/p?+tok=\(secret)&%20TOK%00x=\(secret)": "/p?+tok=***&%20TOK%00x=***",
            "/p;tok=\(secret);v=\(secret)/q?d=5": "/p;tok=***/q?d=5",
            "/p;tok=\(secret)?tok=\(secret)": "/p;tok=***?tok=***",
            "/p?u=/?access_token=\(secret)": "/p?u=/?access_token=***",
            "/p?accessToken=\(secret)": "/p?accessToken=***",
            "/tok/x;y?toc=6&tok": "/tok/x;y?toc=6&tok",
        ]
        for target in forms.keys { #expect(try stage.get(target).text == target) }
        let urls = Set(try stage.proxy.waitForTaskLines(forms.count).compactMap { $0.string("url") })
        #expect(urls == Set(forms.values.map { "https://\(Stage.host)\($0)" }))
        #expect(!stage.proxy.output.contains(secret))
    }

    @Test("usual names of secrets are masked in log, tasks, archive and cache")
    func usualNames() throws {
        let secret = "s3cr3t"
        let names = [
            "access_token", "Password", "code", "api-key", "X-Amz-Signature", "jwt", "auth", "session[id]",
            "client%5Fsecret",
        ]
        func stage(_ log: [String: Any]) throws -> Stage {
            try Stage {
                $0.members["log"] = log
                $0.members["cache"] = [:] as [String: Any]
                $0.members["admin"] = ["address": "127.0.0.1:0"]
            } responding: {
                OriginResponse.text($0.target, fields: ["Cache-Control: max-age=600"])
            }
        }
        let target = "/p?a=1&" + names.map { "\($0)=\(secret)" }.joined(separator: "&")
        let masked = "https://\(Stage.host)/p?a=1&" + names.map { "\($0)=***" }.joined(separator: "&")
        let usual = try stage([:])
        #expect(try usual.get(target).text == target)
        #expect(try usual.proxy.waitForTaskLines(1).first?.string("url") == masked)
        let admin = usual.proxy.listening.count - 1
        for path in ["/tasks", "/tasks.har", "/cache/entries"] {
            let text = try Patience.poll(for: path) {
                let request = "GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n"
                let text = try usual.proxy.exchange(request, on: admin).text
                return text.contains("/p?a=1") ? text : nil
            }
            #expect(text.contains("\"\(masked)\"") && !text.contains(secret), "\(path): \(text)")
        }
        #expect(!usual.proxy.output.contains(secret) && !usual.proxy.errors.contains(secret))

        let open = try stage(["redact": [] as [String]])
        #expect(try open.get("/p?token=shown").status == 200)
        #expect(try open.proxy.waitForTaskLines(1).first?.string("url") == "https://\(Stage.host)/p?token=shown")
        let other = try stage(["redact": ["add": ["tok"], "remove": ["code"]]])
        #expect(try other.get("/p?token=x&tok=x&code=7").status == 200)
        let line = try other.proxy.waitForTaskLines(1).first
        #expect(line?.string("url") == "https://\(Stage.host)/p?token=***&tok=***&code=7")
    }

    @Test("a line stays one line of JSON, whatever a request contains")
    func hostileRequest() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let path = "/\"%22\\\\{}'<>|^`"
        #expect(try stage.get(path).status == 200)
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("url") == "https://\(Stage.host)\(path)")
    }

    @Test("log.tasks can be a file, or off")
    func destinations() throws {
        let folder = try TemporaryFolder()
        let stage = try Stage({ $0.members["log"] = ["tasks": "\(folder.path)/tasks.log"] }) {
            OriginResponse.text($0.target)
        }
        #expect(try stage.get("/filed").status == 200)
        #expect(try stage.proxy.terminate().exitCode == 0)
        let text = try String(contentsOfFile: "\(folder.path)/tasks.log", encoding: .utf8)
        #expect(LogLine(text)?.string("url") == "https://\(Stage.host)/filed")
        #expect(stage.proxy.taskLines.isEmpty)

        let silent = try Stage({ $0.members["log"] = ["tasks": "off"] }) { OriginResponse.text($0.target) }
        #expect(try silent.get().status == 200)
        #expect(try silent.proxy.terminate().exitCode == 0)
        #expect(silent.proxy.taskLines.isEmpty)
    }
}
