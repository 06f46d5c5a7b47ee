// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

/// A request that waits for something when the policy is replaced goes on under the new one, whatever it waited for.
@Suite("Reload: postponed work", .onOwnThreads)
struct ReloadPutOffTests {
    // MARK: The cache

    @Test(
        "a request that waited for another one's response continues",
        arguments: ["Cache-Control: no-store", "Cache-Control: private, max-age=60", "X-Nothing: said"]
    )
    func collapsed(field: String) throws {
        let gate = Gate()
        let cache = try CacheFixture { connection in
            while try connection.readRequest() != nil {
                try gate.pass()
                try connection.respond("whole", fields: [field])
            }
        }
        defer { gate.open() }
        let clients = try cache.startTogether("/cold")
        try cache.stage.reload { $0.pin(Stage.host, to: cache.stage.server.pin, with: ["includeSubdomains": true]) }
        gate.open()
        for client in clients { #expect(try client.readResponse().text == "whole") }
        #expect(cache.requests.count == 2)
        #expect(try cache.get("/cold").status == 200)
    }

    @Test("a request that waited for another one's response uses the reload's pins")
    func collapsedUnderOtherPins() throws {
        let gate = Gate()
        let cache = try CacheFixture { connection in
            while try connection.readRequest() != nil {
                try gate.pass()
                try connection.respond("whole", fields: ["Cache-Control: max-age=60"])
            }
        }
        defer { gate.open() }
        let clients = try cache.startTogether("/cold")
        try cache.stage.reload { $0.pin(Stage.host, to: .unrelated(2)) }
        gate.open()
        // The request was under way, and its response is stored under the former policy, so that it is not used any
        // more.
        #expect(try clients[0].readResponse().status == 200)
        #expect(try clients[1].readResponse().problemCode == "pin_mismatch")
        #expect(cache.requests.count == 1)
        // The mended twin.
        try cache.stage.reload { _ in }
        #expect(try cache.get("/cold").text == "whole")
    }

    @Test("a request that waited gets what is stored under the new policy")
    func hit() throws {
        let gate = Gate()
        let cache = try CacheFixture(
            [:],
            { $0.hosts[Stage.host]?["connectionsPerHost"] = 1 },
            script: { connection in
                while let request = try connection.readRequest() {
                    if request.target == "/held" { try gate.pass() }
                    try connection.write(CacheFixture.fresh(request.target))
                }
            }
        )
        defer { gate.open() }
        let page = ProxyUnderTest.request("GET", cache.stage.url("/page"))
        #expect(try cache.get("/page").text == "/page")
        // Nothing is stored under these pins.
        try cache.stage.reload { $0.pin(Stage.host, to: cache.stage.server.pin, with: ["minTLSVersion": "1.3"]) }
        let holding = try cache.proxy.connect()
        try holding.send(ProxyUnderTest.request("GET", cache.stage.url("/held")))
        try cache.origin.wait(for: "the other request") { $0.flatMap(\.requests).count == 2 ? true : nil }
        let client = try cache.proxy.connect()
        try client.send(page)
        try cache.proxy.settle()
        try cache.stage.reload { _ in }
        #expect(try client.readResponse().text == "/page")
        #expect(cache.requests.count == 2)
        // Nothing of the request that was not sent is in the log.
        try client.send(page)
        #expect(try client.readResponse().text == "/page")
        let lines = try Patience.poll(for: "the lines of the page") {
            let lines = cache.proxy.taskLines.filter { $0.string("url")?.hasSuffix("/page") == true }
            return lines.count == 3 ? lines : nil
        }
        func members(_ line: LogLine) -> [String] {
            line.members.filter { !["time", "duration"].contains($0.key) }.map { "\($0.key)=\($0.value)" }.sorted()
        }
        #expect(lines.map { $0.string("cache") } == ["miss", "hit", "hit"])
        #expect(members(lines[1]) == members(lines[2]))
    }

    @Test("a validation that needs the whole uses the reload's policy")
    func validation() throws {
        for isAccepted in [true, false] {
            let gate = Gate()
            let cache = try CacheFixture { connection in
                while let request = try connection.readRequest() {
                    guard request["If-None-Match"] != nil else {
                        try connection.respond("whole", fields: ["ETag: \"a\"", "Cache-Control: no-cache"])
                        continue
                    }
                    try gate.pass()
                    try connection.write("HTTP/1.1 304 Not Modified\r\nETag: \"other\"\r\n\r\n")
                }
            }
            defer { gate.open() }
            #expect(try cache.get("/v").status == 200)
            let client = try cache.proxy.connect()
            try client.send(ProxyUnderTest.request("GET", cache.stage.url("/v")))
            try cache.origin.wait(for: "the validation") { $0.flatMap(\.requests).count == 2 ? true : nil }
            try cache.stage.reload {
                if !isAccepted { $0.pin(Stage.host, to: .unrelated(2)) }
            }
            gate.open()
            let response = try client.readResponse()
            if isAccepted {
                #expect(response.text == "whole")
                // The stored response is validated once more, since it is looked up under the new policy.
                #expect(cache.requests.count == 4)
            } else {
                #expect(response.problemCode == "pin_mismatch")
                #expect(cache.requests.count == 2)
            }
        }
    }

    @Test(
        "a background refresh that needs the whole uses the reload's policy",
        arguments: ["same", "pins", "denied", "uncached", "headers"]
    )
    func refresh(change: String) throws {
        let gate = Gate()
        let cache = try CacheFixture { connection in
            while let request = try connection.readRequest() {
                guard request["If-None-Match"] != nil else {
                    let control = "Cache-Control: max-age=0, stale-while-revalidate=600"
                    try connection.respond("whole", fields: ["ETag: \"a\"", control])
                    continue
                }
                try gate.pass()
                try connection.write("HTTP/1.1 304 Not Modified\r\nETag: \"other\"\r\n\r\n")
            }
        }
        defer { gate.open() }
        #expect(try cache.get("/r").status == 200)
        #expect(try cache.get("/r").text == "whole")
        try cache.origin.wait(for: "the validation") { $0.flatMap(\.requests).count == 2 ? true : nil }
        try cache.stage.reload { settings in
            switch change {
            case "pins": settings.pin(Stage.host, to: cache.stage.server.pin, with: ["minTLSVersion": "1.3"])
            case "denied": settings.members["access"] = ["denyHosts": [Stage.host]]
            case "uncached": settings.members["cache"] = nil
            case "headers": settings.hosts[Stage.host]?["headers"] = ["request": ["set": ["X-Key": "new"]]]
            default: break
            }
        }
        gate.open()
        let lines = try Patience.poll(for: "the refresh to end") {
            let lines = cache.proxy.taskLines.filter { $0.string("client") == "cache" }
            return lines.count == (change == "same" ? 2 : 1) ? lines : nil
        }
        if change == "same" {
            #expect(lines.allSatisfy { $0["error"] == nil })
            #expect(cache.requests.count == 3)
        } else {
            #expect(lines[0].string("error") == "cancelled", "\(lines[0].text)")
            #expect(lines[0].string("errorDetails")?.contains("reload") == true)
            #expect(cache.requests.count == 2)
        }
        // It serves on.
        try cache.stage.reload { _ in }
        #expect(try cache.get("/after").status == 200)
    }

    // MARK: Connections

    /// The possible first requests of a client, each with a route of its own to an origin.
    enum Way: String, CaseIterable {
        case get, post, tunnel, intercept, upgrade, http2
    }

    @Test(
        "a request that is being connected goes where the new policy leads",
        arguments: Way.allCases.filter { $0 != .tunnel }
    )
    func dialling(way: Way) throws {
        // It takes connections, and says nothing on them. A tunnel would stand at once: it is TCP alone.
        let silent = try TestSocket.listen()
        defer { close(silent.descriptor) }
        let stage = try WayStage(start: { $0.hosts[Stage.host]?["resolve"] = "127.0.0.1:\(silent.port)" })
        let started = try stage.start(way)
        let dialled = accept(silent.descriptor, nil, nil)
        defer { close(dialled) }
        try stage.proxy.reload(stage.settings)
        #expect(try started.outcome() == "200")
    }

    @Test(
        "a request that waits for a connection uses the reload's policy",
        arguments: Way.allCases
    )
    func queued(way: Way) throws {
        let gate = Gate()
        let stage = try WayStage(
            gate,
            always: {
                $0.hosts[Stage.host]?["connectionsPerHost"] = 1
                $0.hosts[WayStage.open]?["connectionsPerHost"] = 1
            }
        )
        defer { gate.open() }
        // Streams are counted apart from requests.
        let isStream = [.tunnel, .intercept, .upgrade].contains(way)
        let holding = try stage.hold(isStream)
        let started = try stage.start(way)
        try stage.settle()
        var settings = stage.settings
        settings.members["access"] = ["denyHosts": [Stage.host, WayStage.open]]
        try stage.proxy.reload(settings)
        // The other is still under way, under its own policy.
        #expect(try started.outcome() == "403 host_denied")
        gate.open()
        withExtendedLifetime(holding) {}
        try stage.proxy.reload(stage.settings)
        #expect(try stage.start(way).outcome() == "200")
    }

    @Test("a request repeated after a dead connection uses the reload's policy")
    func repeated() throws {
        let gate = Gate()
        let stage = try Stage({ $0.members["workers"] = 1 }) { connection in
            while let request = try connection.readRequest() {
                if request.target == "/dies", connection.number == 0 {
                    try gate.pass()
                    return
                }
                try connection.respond(request.target)
            }
        }
        defer { gate.open() }
        #expect(try stage.get("/first").status == 200)
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url("/dies")))
        try stage.origin.wait(for: "the request") { $0.flatMap(\.requests).count == 2 ? true : nil }
        try stage.reload { $0.pin(Stage.host, to: .unrelated(2)) }
        gate.open()
        #expect(try client.readResponse().problemCode == "pin_mismatch")
        #expect(stage.origin.requests.count == 2)
        try stage.reload { _ in }
        #expect(try stage.get("/dies").text == "/dies")
    }

    // MARK: Redirects

    enum Leading: String, CaseIterable {
        case same, removesUser, deniesHost, dropsPins, returnsRedirects, deniesRedirect

        var expected: String? {
            switch self {
            case .same: nil
            case .removesUser: "authentication_required"
            case .deniesHost: "host_denied"
            case .dropsPins, .returnsRedirects, .deniesRedirect: "redirect_denied"
            }
        }
    }

    @Test(
        "a redirect that ends after a reload is followed by its policy",
        arguments: Leading.allCases
    )
    func redirect(change: Leading) throws {
        let gate = Gate()
        let second = "second.example.com"
        let server = try Stage.pki.server(second)
        let end = try ScriptedOrigin(server) { OriginResponse.text("\($0.method) \($0.text)") }
        // The digest of "open-sesame".
        let digest = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7"
        let stage = try Stage({
            $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
            $0.resolve(second, to: end.port)
            $0.pin(second, to: server.pin)
            $0.files["tokens"] = "ci:\(digest)\n"
            $0.members["authentication"] = ["bearer": ["file": "tokens"]]
        }) { connection in
            while try connection.readRequest() != nil {
                let head =
                    "HTTP/1.1 307 Temporary Redirect\r\nLocation: https://\(second)/next\r\nContent-Length: 4\r\n\r\n"
                try connection.write(head + "fo")
                try gate.pass()
                try connection.write("ur")
            }
        }
        defer { gate.open() }
        let client = try stage.proxy.connect()
        let fields = ["Proxy-Authorization: Bearer open-sesame"]
        try client.send(ProxyUnderTest.request("PUT", stage.url("/file"), fields: fields, body: "the body"))
        try stage.origin.wait(for: "the redirect") { ($0.first?.bytesWritten ?? 0) > 0 ? true : nil }
        try stage.reload { settings in
            switch change {
            case .same: break
            case .removesUser: settings.files["tokens"] = "ci:\(digest.replacingOccurrences(of: "d7", with: "d8"))\n"
            case .deniesHost: settings.members["access"] = ["denyHosts": [second]]
            case .dropsPins: settings.pinnedDomains[second] = nil
            case .returnsRedirects: settings.hosts[Stage.host]?["redirects"] = nil
            case .deniesRedirect:
                let rule: [String: Any] = ["to": second, "then": "deny"]
                settings.hosts[Stage.host]?["redirects"] = ["policy": "follow", "rules": [rule]]
            }
        }
        gate.open()
        let response = try client.readResponse(to: "PUT")
        #expect(response.problemCode == change.expected)
        if change == .same { #expect(response.text == "PUT the body") }
        #expect(end.requests.count == (change == .same ? 1 : 0))
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.transactions.count == (change == .same ? 2 : 1), "\(line.text)")
    }

    @Test("a redirected request without a connection is made anew")
    func redirectDialling() throws {
        let silent = try TestSocket.listen()
        defer { close(silent.descriptor) }
        let second = "second.example.com"
        let server = try Stage.pki.server(second)
        let end = try ScriptedOrigin(server) { OriginResponse.text("\($0.method) \($0.body.count)") }
        for count in [10, 300_000] {
            let stage = try Stage({
                $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
                $0.resolve(second, to: silent.port)
                $0.pin(second, to: server.pin)
            }) { connection in
                while try connection.readRequest() != nil {
                    try connection.respond("", status: "307 Elsewhere", fields: ["Location: https://\(second)/next"])
                }
            }
            let client = try stage.proxy.connect()
            let body = String(repeating: "b", count: count)
            try client.send(ProxyUnderTest.request("PUT", stage.url("/file"), body: body))
            let dialled = accept(silent.descriptor, nil, nil)
            defer { close(dialled) }
            try stage.reload { $0.resolve(second, to: end.port) }
            #expect(try client.readResponse(to: "PUT").text == "PUT \(count)")
            let line = try #require(try stage.proxy.waitForTaskLines(1).first)
            #expect(line.integer("redirectCount") == 1 && line.transactions.count == 2, "\(line.text)")
        }
    }

    @Test("a response that becomes a file continues through a reload")
    func download() throws {
        let gate = Gate()
        let folder = try TemporaryFolder()
        let stage = try Stage({
            let rule: [String: Any] = ["then": "becomeDownload", "directory": folder.path]
            $0.hosts[Stage.host]?["responses"] = ["rules": [rule]]
        }) { connection in
            while try connection.readRequest() != nil {
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
                try gate.pass()
                try connection.write("after")
            }
        }
        defer { gate.open() }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url("/file")))
        try stage.origin.wait(for: "the first half") { ($0.first?.bytesWritten ?? 0) > 0 ? true : nil }
        try stage.reload { $0.hosts[Stage.host]?["responses"] = nil }
        gate.open()
        #expect(try client.readResponse().status == 201)
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        #expect(try files.map { try String(contentsOfFile: "\(folder.path)/\($0)", encoding: .utf8) } == ["firstafter"])
    }
}

extension CacheFixture {
    /// Two requests for one URL that nothing is stored of: the first is at the origin, the second waits for it.
    fileprivate func startTogether(_ path: String) throws -> [TestClient] {
        let leader = try proxy.connect()
        try leader.send(ProxyUnderTest.request("GET", stage.url(path)))
        try origin.wait(for: "the first") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        let follower = try proxy.connect()
        try follower.send(ProxyUnderTest.request("GET", stage.url(path)))
        try proxy.settle()
        return [leader, follower]
    }
}

extension ProxyUnderTest {
    /// Returns when the one worker has taken what was sent to it before.
    func settle() throws {
        #expect(try exchange("TRACE / HTTP/1.1\r\nHost: nowhere\r\n\r\n", method: "TRACE").status == 405)
    }
}
