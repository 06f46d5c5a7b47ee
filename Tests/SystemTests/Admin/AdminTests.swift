// SPDX-License-Identifier: Apache-2.0
import Glibc
import ServerTrust
import TestSupport
import Testing

@Suite("The admin listener", .onOwnThreads)
struct AdminTests {
    private static let wrongHost = "wrong.example.com"

    /// A proxy with an admin listener, and nothing but the proxy's own addresses denied.
    private func stage(_ change: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> Stage {
        try Stage { settings in
            settings.members["admin"] = ["address": "127.0.0.1:0"]
            settings.members["access"] = ["denyAddresses": [String]()]
            change(&settings)
        } responding: {
            OriginResponse.text($0.target)
        }
    }

    private static func get(
        _ path: String,
        from proxy: ProxyUnderTest,
        method: String = "GET",
        host: String = "localhost"
    ) throws -> HTTPMessage {
        try proxy.exchange(
            "\(method) \(path) HTTP/1.1\r\nHost: \(host)\r\n\r\n",
            method: method,
            on: proxy.listening.count - 1
        )
    }

    /// The samples of the page, by name and labels.
    private static func metrics(of proxy: ProxyUnderTest) throws -> [String: Double] {
        let page = try get("/metrics", from: proxy)
        try #require(page.status == 200)
        let samples = page.text.split(separator: "\n").filter { !$0.hasPrefix("#") }.compactMap { line in
            line.lastIndex(of: " ").flatMap { space in
                Double(line[line.index(after: space)...]).map { (String(line[..<space]), $0) }
            }
        }
        return Dictionary(samples) { first, _ in first }
    }

    private static func adminPort(_ proxy: ProxyUnderTest) -> UInt16 { proxy.port(of: proxy.listening.count - 1) }

    @Test("the listening line comes last, and curl can read the metrics")
    func curl() throws {
        let proxy = try stage().proxy
        #expect(proxy.listening.map(\.mode) == ["forward", "admin"])
        let url = "http://127.0.0.1:\(Self.adminPort(proxy))"
        let curl = try Programs.path(of: "curl")
        let responses = try Programs.run(curl, ["-sS", "-w", "%{http_code} ", "\(url)/live", "\(url)/ready"])
        #expect(responses.output == "live\n200 ready\n200 ")
        let page = try Programs.run(curl, ["-sS", "-i", "\(url)/metrics"])
        #expect(page.output.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"))
        #expect(page.output.contains("\npinproxy_policy_generation 1\n"))
        let head = try Programs.run(curl, ["-sS", "-I", "\(url)/metrics"])
        #expect(head.output.hasPrefix("HTTP/1.1 200 OK\r\n") && !head.output.contains("pinproxy_"))
    }

    @Test("requests, errors, bytes, connections, handshakes and verdicts are counted")
    func counts() throws {
        let stage = try stage { settings in
            settings.resolve(Self.wrongHost, to: 1)
            settings.pin(Self.wrongHost, to: .unrelated(7))
        }
        let wrong = try Stage.pki.server(Self.wrongHost)
        let other = try ScriptedOrigin(wrong) { connection in connection.readToEnd() }
        try stage.reload { settings in
            settings.resolve(Self.wrongHost, to: other.port)
            settings.pin(Self.wrongHost, to: .unrelated(7))
        }
        let proxy = stage.proxy
        let client = try proxy.connect()
        try client.send(ProxyUnderTest.request("POST", stage.url("/one"), body: "12345"))
        #expect(try client.readResponse().text == "/one")
        try client.send(ProxyUnderTest.request("GET", stage.url("/then")))
        #expect(try client.readResponse().text == "/then")
        #expect(try proxy.get("http://\(Self.wrongHost)/").problemCode == "pin_mismatch")
        #expect(try proxy.get("http://nowhere.invalid/").problemCode == "dns_failed")
        // The verdicts by domain are gathered once a second.
        let pass = "pinproxy_pin_verdicts_total{domain=\"\(Stage.host)\",verdict=\"pass\"}"
        let fail = "pinproxy_pin_verdicts_total{domain=\"\(Self.wrongHost)\",verdict=\"fail\"}"
        let metrics = try Patience.poll(for: "the verdicts") {
            let metrics = try Self.metrics(of: proxy)
            return metrics[pass] == 1 && metrics[fail] == 1 ? metrics : nil
        }
        #expect(metrics["pinproxy_tasks_total{status=\"2xx\"}"] == 2)
        #expect(metrics["pinproxy_tasks_total{status=\"5xx\"}"] == 2)
        #expect(metrics["pinproxy_task_errors_total{error=\"pin_mismatch\"}"] == 1)
        #expect(metrics["pinproxy_task_errors_total{error=\"dns_failed\"}"] == 1)
        #expect(metrics["pinproxy_task_errors_total{error=\"internal\"}"] == 0)
        #expect(metrics["pinproxy_task_duration_seconds_count"] == 4)
        #expect(metrics["pinproxy_task_duration_seconds_bucket{le=\"+Inf\"}"] == 4)
        #expect(try #require(metrics["pinproxy_task_duration_seconds_sum"]) > 0)
        #expect(metrics["pinproxy_client_received_bytes_total"] == 5)
        #expect(metrics["pinproxy_client_sent_bytes_total"] == Double("/one/then".utf8.count))
        #expect(metrics["pinproxy_client_connections"] == 1)
        #expect(metrics["pinproxy_client_connections_total"] == 3)
        #expect(metrics["pinproxy_origin_requests_total{connection=\"new\"}"] == 1)
        #expect(metrics["pinproxy_origin_requests_total{connection=\"kept\"}"] == 1)
        #expect(try #require(metrics["pinproxy_origin_sent_bytes_total"]) > 100)
        let group = try #require(
            try proxy.waitForTaskLines(1).first?.transactions.first?["tlsGroup"] as? String
        )
        for verdict in ["pass", "fail"] {
            let name = "pinproxy_origin_handshakes_total{verdict=\"\(verdict)\",group=\"\(group)\"}"
            #expect(metrics[name] == 1, "\(name)")
        }
        #expect(metrics["pinproxy_workers"] == 2)
        #expect(metrics["pinproxy_pinned_domains"] == 2)
        #expect(try #require(metrics["process_open_fds"]) > 5)
        #expect(try #require(metrics["process_resident_memory_bytes"]) > 1_048_576)
        // Values that clients and origins choose are no labels: a requested name does not appear on the page.
        #expect(!metrics.keys.contains { $0.contains("nowhere.invalid") || $0.contains("/then") })
    }

    @Test("refused servers, backup pins and failed connections are counted by pinned domain")
    func failures() throws {
        let (wrong, ended, backup) = ("wrong.example.com", "ended.example.com", "backup.example.com")
        let (mismatch, dead) = ("mismatch.example.com", "dead.example.com")
        let stage = try stage()
        let server = try Stage.pki.server(wrong, ended, backup)
        let origin = try ScriptedOrigin(server) { connection in
            while let request = try connection.readRequest() {
                try connection.write(OriginResponse.text(request.target))
            }
        }
        let backupPin: [String: Any] = ["spki-sha256": server.pin.base64, "backup": true]
        try stage.reload { settings in
            for host in [wrong, ended, backup] { settings.resolve(host, to: origin.port) }
            settings.pin(wrong, to: .unrelated(7))
            settings.pin(ended, to: server.pin, with: ["expiration": "2020-01-31"])
            settings.pin(
                backup,
                to: server.pin,
                with: ["pins": ["\(PublicKeyPin.unrelated(7))", backupPin] as [Any]]
            )
            settings.serve(mismatch, stage.server, at: stage.origin.port)
            settings.resolve(dead, to: 1)
            settings.pin(dead, to: .unrelated(7))
            settings.resolve("unpinned.example.com", to: stage.origin.port)
            settings.hosts["unpinned.example.com"]?["upgrade"] = true
        }
        let proxy = stage.proxy
        let fails = "pinproxy_pin_failures_total"
        // The monitor of pins has a thread of its own, which takes the new policy behind the workers.
        var samples = try Patience.poll(for: "the domains of the reload") {
            let samples = try Self.metrics(of: proxy)
            return samples.keys.contains { $0.hasPrefix("\(fails){domain=\"\(wrong)\"") } ? samples : nil
        }
        for (domain, reason) in [
            (wrong, "pin_mismatch"), (ended, "pin_set_expired"), (mismatch, "certificate_host_mismatch"),
            ("*", "certificate_host_mismatch"), (dead, "pin_mismatch"),
        ] {
            #expect(samples["\(fails){domain=\"\(domain)\",reason=\"\(reason)\"}"] == 0, "\(domain) \(reason)")
        }
        #expect(samples["pinproxy_pin_backup_matches_total{domain=\"\(backup)\"}"] == 0)
        #expect(try stage.get("/right").status == 200)
        for (host, error) in [
            (wrong, "pin_mismatch"), (ended, "pin_set_expired"), (mismatch, "certificate_host_mismatch"),
            (dead, "connect_failed"), ("unpinned.example.com", "certificate_host_mismatch"),
            ("nowhere.invalid", "dns_failed"),
        ] {
            #expect(try proxy.get("http://\(host)/").problemCode == error)
        }
        #expect(try proxy.get("http://\(backup)/").status == 200)
        let wanted =
            [
                "\(fails){domain=\"\(wrong)\",reason=\"pin_mismatch\"}": 1,
                "\(fails){domain=\"\(ended)\",reason=\"pin_set_expired\"}": 1,
                "\(fails){domain=\"\(mismatch)\",reason=\"certificate_host_mismatch\"}": 1,
                "\(fails){domain=\"*\",reason=\"certificate_host_mismatch\"}": 1,
                "\(fails){domain=\"\(Stage.host)\",reason=\"pin_mismatch\"}": 0,
                "pinproxy_pin_backup_matches_total{domain=\"\(backup)\"}": 1,
                "pinproxy_connect_failures_total{domain=\"\(dead)\",error=\"connect_failed\"}": 1,
                "pinproxy_connect_failures_total{domain=\"*\",error=\"dns_failed\"}": 1,
                "pinproxy_connect_failures_total{domain=\"\(Stage.host)\",error=\"connect_failed\"}": 0,
            ] as [String: Double]
        samples = try Patience.poll(for: "the failures") {
            let samples = try Self.metrics(of: proxy)
            return wanted.allSatisfy { samples[$0.key] == $0.value } ? samples : nil
        }
        let failed = samples.filter { $0.key.hasPrefix(fails) && $0.value > 0 }
        #expect(failed.count == 4, "\(failed)")
        #expect(!samples.keys.contains { $0.contains("unpinned.example") || $0.contains("nowhere") })
    }

    @Test("a reload's success, failure, lost pins and pending keys are reported")
    func reloads() throws {
        let stage = try stage()
        try stage.reload { $0.pin("more.example.com", to: .unrelated(3), with: ["expiration": "2101-01-31"]) }
        var metrics = try Self.metrics(of: stage.proxy)
        let end = "pinproxy_pin_set_expiry_timestamp_seconds{domain=\"more.example.com\"}"
        #expect(metrics["pinproxy_policy_generation"] == 2 && metrics["pinproxy_reloads_total"] == 1)
        #expect(metrics[end] == 4_136_659_200)
        try stage.reload { $0.members["unpinnedHosts"] = "perhaps" }
        metrics = try Self.metrics(of: stage.proxy)
        #expect(metrics["pinproxy_policy_generation"] == 2)
        #expect(metrics["pinproxy_reload_failures_total{reason=\"configuration\"}"] == 1)
        #expect(metrics["pinproxy_last_reload_successful"] == 0)
        #expect(metrics[end] == 4_136_659_200, "the policy before goes on")
        try stage.reload { $0.members["admin"] = ["address": "127.0.0.1:1"] }
        try stage.proxy.waitForEvent("restartNeeded") { $0.string("key") == "admin" }
        try stage.proxy.waitForEvent("warning") { $0.string("code") == "pins_dropped" }
        metrics = try Patience.poll(for: "the dropped pins") {
            let metrics = try Self.metrics(of: stage.proxy)
            return metrics["pinproxy_dropped_pins_total"] == 1 ? metrics : nil
        }
        #expect(metrics["pinproxy_last_reload_successful"] == 1)
        #expect(metrics["pinproxy_restart_needed{key=\"admin\"}"] == 1)
        #expect(metrics["pinproxy_restart_needed{key=\"workers\"}"] == 0)
        #expect(metrics[end] == nil)
    }

    @Test("the listener responds to its own names, and to GET and HEAD")
    func refusals() throws {
        let proxy = try stage { $0.members["admin"] = ["address": "127.0.0.1:0", "allowedHosts": ["ops.example.com"]] }
            .proxy
        for host in ["localhost", "127.0.0.1", "127.0.0.1:\(Self.adminPort(proxy))", "OPS.example.com:99"] {
            #expect(try Self.get("/live", from: proxy, host: host).status == 200, "\(host)")
        }
        for host in ["evil.example.com", "127.0.0.2", Stage.host] {
            let response = try Self.get("/metrics", from: proxy, host: host)
            #expect(response.status == 421 && response.problemCode == "misdirected_request", "\(host)")
            #expect(!response.text.contains("pinproxy_"))
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PURGE"] {
            let response = try Self.get("/live", from: proxy, method: method)
            #expect(response.status == 405 && response["Allow"] == "GET, HEAD", "\(method)")
        }
        #expect(try Self.get("/other", from: proxy).status == 404)
    }

    @Test("a connection carries one request after the other, and closes after a bad one")
    func persistence() throws {
        let proxy = try stage().proxy
        let client = try proxy.connect(to: 1)
        try client.send(
            "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\nGET /ready HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /live HT"
        )
        #expect(try client.readResponse().text == "live\n")
        #expect(try client.readResponse().text == "ready\n")
        try client.send("TP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(try client.readResponse(to: "HEAD")["Content-Length"] == "5")
        try client.send(
            "GET /live HTTP/1.1\r\nHost: localhost\r\nBad : 1\r\n\r\nGET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        let refused = try client.readResponse()
        #expect(refused.status == 400 && refused["Connection"] == "close")
        #expect(try client.isAtEnd())
    }

    @Test("many silent connections keep nobody out")
    func idleConnections() throws {
        let proxy = try stage().proxy
        let idle = try (0..<100).map { _ in try proxy.connect(to: 1) }
        #expect(try Self.get("/ready", from: proxy).status == 200)
        #expect(try idle[0].isAtEnd())
    }

    @Test("a Unix socket serves it too, and health uses that")
    func unixSocket() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/admin.sock"
        let proxy = try stage { $0.members["admin"] = ["unixSocket": path] }.proxy
        #expect(proxy.listening.last?.unixPath == path)
        #expect(try Self.get("/ready", from: proxy).text == "ready\n")
        let health = try pinproxy("health", "--admin", path)
        #expect(health.exitCode == 0 && health.output == "ready\n")
        #expect(try pinproxy("health", "--config", "\(proxy.folder.path)/config.json").exitCode == 0)
        try proxy.terminate()
        #expect(access(path, F_OK) != 0, "its file is gone with it")
        #expect(try pinproxy("health", "--admin", path).exitCode == 69)
    }

    // MARK: Out of reach for the proxy's clients

    @Test(
        "no way through the proxy leads there, whatever addresses are allowed",
        arguments: ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]"]
    )
    func unreachable(host: String) throws {
        let proxy = try stage().proxy
        let response = try proxy.get("http://\(host):\(Self.adminPort(proxy))/metrics")
        #expect(response.status == 403 && response.problemCode == "address_denied", "\(response.startLine)")
        #expect(response.text.contains("own listeners"))
    }

    @Test("neither a resolve nor a gateway leads there")
    func unreachableByName() throws {
        let stage = try stage { settings in
            settings.addGateway(to: "gateway.example.com")
            settings.resolve("gateway.example.com", to: 9)
        }
        let proxy = stage.proxy
        try stage.reload { settings in
            settings.resolve("gateway.example.com", to: Self.adminPort(proxy))
            settings.resolve("name.example.com", to: Self.adminPort(proxy))
        }
        for url in ["http://name.example.com/metrics", "https://name.example.com/metrics"] {
            #expect(try proxy.get(url).problemCode == "address_denied", "\(url)")
        }
        let response = try proxy.exchange("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
        #expect(response.problemCode == "address_denied")
        #expect(try Self.metrics(of: proxy)["pinproxy_task_errors_total{error=\"address_denied\"}"] == 3)
    }

    @Test("PURGE is refused to clients, and reaches no origin")
    func purge() throws {
        let stage = try stage { $0.addGateway(to: Stage.host) }
        let forward = try stage.proxy.exchange(ProxyUnderTest.request("PURGE", stage.url("/a")), method: "PURGE")
        let gateway = try stage.proxy.exchange("PURGE /a HTTP/1.1\r\nHost: localhost\r\n\r\n", method: "PURGE", on: 1)
        for response in [forward, gateway] {
            #expect(response.status == 405 && response.problemCode == "request_invalid")
            #expect(response["Allow"]?.hasPrefix("GET, HEAD, POST") == true)
        }
        #expect(stage.origin.requests.isEmpty)
        // Methods are case-sensitive: another one is handed on, as every unknown one is.
        let other = try stage.proxy.exchange(ProxyUnderTest.request("purge", stage.url("/b")), method: "purge")
        #expect(other.status == 200)
    }

    // MARK: The end

    @Test("while requests finish it is unready and alive, then gone")
    func draining() throws {
        let gate = Gate()
        let stage = try Stage {
            $0.members["admin"] = ["address": "127.0.0.1:0"]
        } script: { connection in
            guard let request = try connection.readRequest() else { return }
            try gate.pass()
            try connection.respond(request.target)
        }
        let proxy = stage.proxy
        let address = "127.0.0.1:\(Self.adminPort(proxy))"
        #expect(try pinproxy("health", "--admin", address).exitCode == 0)
        let client = try proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url("/late")))
        try stage.origin.wait(for: "the request") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        proxy.signal(SIGTERM)
        let response = try Patience.poll(for: "unreadiness") {
            let response = try Self.get("/ready", from: proxy)
            return response.status == 503 ? response : nil
        }
        #expect(response.text == "draining\n")
        #expect(try Self.get("/live", from: proxy).status == 200)
        #expect(try Self.metrics(of: proxy)["pinproxy_draining"] == 1)
        let health = try pinproxy("health", "--admin", address)
        #expect(health.exitCode == 1 && health.errors.hasPrefix("pinproxy: not ready: draining (it is about to end"))
        let life = try pinproxy("health", "--live", "--admin", address)
        #expect(life.exitCode == 0 && life.output == "live\n")
        gate.open()
        #expect(try client.readResponse().text == "/late")
        #expect(try proxy.waitForExit().exitCode == 0)
        #expect(try pinproxy("health", "--admin", address).exitCode == 69)
    }

    @Test("an address in use ends with exit code 69")
    func taken() throws {
        let held = try TestSocket.listen()
        defer { close(held.descriptor) }
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["admin"] = ["address": "127.0.0.1:\(held.port)"]
        let finished = try pinproxy("run", "--config", try settings.write(to: folder))
        #expect(finished.exitCode == 69)
        #expect(finished.errors.contains("127.0.0.1:\(held.port)"))
    }

    @Test("exec starts no admin listener")
    func exec() throws {
        let held = try TestSocket.listen()
        defer { close(held.descriptor) }
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["admin"] = ["address": "127.0.0.1:\(held.port)"]
        let finished = try pinproxy("exec", "--config", try settings.write(to: folder), "--", "true")
        #expect(finished.exitCode == 0, "\(finished.errors)")
    }
}
