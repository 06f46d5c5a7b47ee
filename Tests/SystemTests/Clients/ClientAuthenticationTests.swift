// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

@Suite("Authentication of clients", .waitingOnOwnThreads)
struct ClientAuthenticationTests {
    private let users: String
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        users = "# people\nalice:" + (try Programs.passwordHash("correct horse"))
    }

    private func stage(
        _ authentication: [String: Any] = ["basic": ["file": "users.htpasswd"]],
        _ change: (inout ProxySettings) -> Void = { _ in }
    ) throws -> Stage {
        try Stage(
            { settings in
                settings.files["users.htpasswd"] = users
                // The digest of "open sesame".
                settings.files["tokens.txt"] = "ci:\(Self.digest)\n"
                settings.members["authentication"] = authentication
                change(&settings)
            },
            responding: { request in
                let seen = request["Proxy-Authorization"] ?? request["Authorization"] ?? "nothing"
                return "HTTP/1.1 200 OK\r\nContent-Length: \(seen.utf8.count)\r\n\r\n\(seen)"
            }
        )
    }

    private static let digest = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7"

    private func basic(_ user: String, _ password: String) -> String {
        "Proxy-Authorization: Basic " + Data("\(user):\(password)".utf8).base64EncodedString()
    }

    @Test("an unknown client is asked to authenticate, and its connection stays")
    func asks() throws {
        let stage = try stage(["basic": ["file": "users.htpasswd"], "bearer": ["file": "tokens.txt"]])
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        let refused = try client.readResponse()
        #expect(refused.status == 407)
        #expect(refused.problemCode == "authentication_required")
        let challenges = refused.fields.filter { $0.name == "Proxy-Authenticate" }.map(\.value)
        #expect(challenges == [#"Basic realm="pinproxy", charset="UTF-8""#, #"Bearer realm="pinproxy""#])
        #expect(refused["Proxy-Status"]?.contains("http_request_error") == true)
        try client.send(ProxyUnderTest.request("GET", stage.url(), fields: [basic("alice", "correct horse")]))
        let response = try client.readResponse()
        #expect(response.status == 200)
        // Nothing of it goes to the origin.
        #expect(response.text == "nothing")
        let lines = try stage.proxy.waitForTaskLines(2)
        #expect(lines[0].string("error") == "authentication_required")
        #expect(lines[0]["user"] == nil)
        #expect(lines[1].string("user") == "alice")
        #expect(!stage.proxy.output.contains("Basic"))
    }

    @Test("a body over HTTP/2 during the password's verification arrives whole", arguments: [1, 60_000])
    func bodyOverHTTP2(_ count: Int) throws {
        let stage = try Stage(
            { settings in
                settings.files["users.htpasswd"] = users
                settings.members["authentication"] = ["basic": ["file": "users.htpasswd"]]
                settings.listeners[0]["http2"] = true
            },
            responding: { OriginResponse.text("\($0.body.count)") }
        )
        let peer = try HTTP2Peer(stage.proxy.connect())
        let words = basic("alice", "correct horse").split(separator: " ", maxSplits: 1)
        for length in [nil, "\(count)"] {
            let stream = try peer.request(
                "POST",
                authority: Stage.host,
                fields: [("proxy-authorization", String(words[1]))] + (length.map { [("content-length", $0)] } ?? []),
                body: [UInt8](repeating: 1, count: count)
            )
            let response = try peer.finish(stream)
            #expect(response.status == 200)
            #expect(response.text == "\(count)")
        }
    }

    @Test("wrong passwords, unknown users and broken credentials are refused alike")
    func refuses() throws {
        let stage = try stage()
        let attempts = [
            basic("alice", "wrong"), basic("alice", ""), basic("mallory", "correct horse"), basic("", ""),
            "Proxy-Authorization: Basic !!!", "Proxy-Authorization: Basic", "Proxy-Authorization: Digest x",
            "Proxy-Authorization: Bearer open sesame", "Authorization: Basic " + "YWxpY2U6Y29ycmVjdCBob3JzZQ==",
            basic("alice", "correct horse") + "\r\n" + basic("alice", "correct horse"),
        ]
        for attempt in attempts {
            let response = try stage.get(fields: [attempt])
            #expect(response.status == 407, "\(attempt)")
        }
        #expect(stage.origin.connections.isEmpty)
    }

    @Test("a request with a body is refused, and an unfinished one closes the connection")
    func refusedBodies() throws {
        let stage = try stage()
        let whole = try stage.proxy.connect()
        try whole.send(ProxyUnderTest.request("POST", stage.url(), body: "body"))
        let response = try whole.readResponse()
        #expect(response.status == 407)
        #expect(response["Connection"] == "close")
        #expect(try whole.isAtEnd())
    }

    @Test("a body that came with a right password is forwarded")
    func bodyWaits() throws {
        let stage = try Stage(
            { settings in
                settings.files["users.htpasswd"] = users
                settings.members["authentication"] = ["basic": ["file": "users.htpasswd"]]
            },
            responding: { "HTTP/1.1 200 OK\r\nContent-Length: \($0.text.utf8.count)\r\n\r\n\($0.text)" }
        )
        let request = ProxyUnderTest.request(
            "POST",
            stage.url(),
            fields: [basic("alice", "correct horse")],
            body: "what was to be said"
        )
        #expect(try stage.proxy.exchange(request, method: "POST").text == "what was to be said")
    }

    @Test("a token is known by its digest")
    func tokens() throws {
        let stage = try stage(["bearer": ["file": "tokens.txt"]])
        let good = try stage.get(fields: ["Proxy-Authorization: bearer open-sesame"])
        #expect(good.status == 200)
        #expect(try stage.get(fields: ["Proxy-Authorization: Bearer open-sesam"]).status == 407)
        #expect(Set(try stage.proxy.waitForTaskLines(2).map { $0.string("user") }) == ["ci", nil])
    }

    @Test("at a Unix socket the process has its user")
    func unixPeers() throws {
        let path = "\(folder.path)/s"
        for (user, status) in [(Int(getuid()), 200), (Int(getuid()) + 1, 403)] {
            let stage = try stage(["unixPeers": ["uids": [user]], "bearer": ["file": "tokens.txt"]]) { settings in
                settings.listeners = [["unixSocket": path]]
                settings.listeners[0]["authentication"] = ["unixPeers": ["uids": [user]]]
            }
            let response = try stage.get()
            #expect(response.status == status)
            #expect(response.fields.filter { $0.name == "Proxy-Authenticate" }.isEmpty)
            let line = try stage.proxy.waitForTaskLines(1)[0]
            #expect(line.string("user") == (status == 200 ? "uid \(user)" : nil))
            try stage.proxy.terminate()
        }
    }

    @Test(
        "over loopback the process has its user without credentials",
        arguments: ["127.0.0.1", "[::1]"]
    )
    func localUsers(address: String) throws {
        let own = Int(getuid())
        for (user, status) in [(own, 200), (own + 1, 403)] {
            let stage = try stage(["localUsers": ["uids": [user]]]) { $0.listeners[0]["address"] = "\(address):0" }
            let url = "http://\(address):\(stage.proxy.port)"
            let curl = try Programs.run(
                "curl",
                ["-sS", "--globoff", "-o", "/dev/null", "-w", "%{http_code}", "--proxy", url, stage.url()]
            )
            #expect(curl.output == "\(status)", "\(curl.errors)")
            let line = try stage.proxy.waitForTaskLines(1)[0]
            #expect(line.string("user") == (status == 200 ? "uid \(user)" : nil))
        }
    }

    @Test(
        "a listed user of this machine is served, others may use a password",
        .enabled(if: getuid() == 0, "another user's process needs root")
    )
    func otherLocalUsers() throws {
        let stage = try stage(["localUsers": ["uids": [61_234]], "basic": ["file": "users.htpasswd"]])
        func curl(_ user: Int, _ options: String...) throws -> String {
            let words = ["--reuid=\(user)", "--regid=\(user)", "--clear-groups", "curl", "-sS", "-o", "/dev/null"]
            let proxy = ["-w", "%{http_code}", "--proxy", "http://127.0.0.1:\(stage.proxy.port)"]
            return try Programs.run("setpriv", words + proxy + options + [stage.url()], folder: "/").output
        }
        #expect(try curl(61_234) == "200")
        #expect(try curl(61_235) == "407")
        #expect(try curl(61_235, "--proxy-user", "alice:correct horse") == "200")
        let users = try stage.proxy.waitForTaskLines(3).map { $0.string("user") }
        #expect(users == ["uid 61234", nil, "alice"])
        // A connection that is open when a reload takes its user out is refused from then on.
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        #expect(try client.readResponse().status == 407)
        try stage.reload { $0.members["authentication"] = ["localUsers": ["uids": [Int(getuid())]]] }
        let other = try stage.proxy.connect()
        try other.send(ProxyUnderTest.request("GET", stage.url()))
        #expect(try other.readResponse().status == 200)
        try stage.reload { $0.members["authentication"] = ["localUsers": ["uids": [61_234]]] }
        try other.send(ProxyUnderTest.request("GET", stage.url()))
        #expect(try other.readResponse().status == 403)
    }

    @Test("a listener may be open, or have its own users")
    func perListener() throws {
        let stage = try stage { settings in
            settings.listeners.append(["address": "127.0.0.1:0", "authentication": false])
            settings.listeners.append(["address": "127.0.0.1:0", "authentication": ["bearer": ["file": "tokens.txt"]]])
            settings.addGateway(to: Stage.host)
        }
        let request = ProxyUnderTest.request("GET", stage.url())
        #expect(try stage.proxy.exchange(request, on: 0).status == 407)
        #expect(try stage.proxy.exchange(request, on: 1).status == 200)
        let withPassword = ProxyUnderTest.request("GET", stage.url(), fields: [basic("alice", "correct horse")])
        #expect(try stage.proxy.exchange(withPassword, on: 0).status == 200)
        #expect(try stage.proxy.exchange(withPassword, on: 2).status == 407)
        // A gateway's clients have Authorization for the origin.
        let toGateway = "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic eDp5\r\n"
        #expect(try stage.proxy.exchange(toGateway + "\r\n", on: 3).status == 407)
        let proven = try stage.proxy.exchange(toGateway + basic("alice", "correct horse") + "\r\n\r\n", on: 3)
        #expect(proven.text == "Basic eDp5")
    }

    @Test("a reload adds and removes users")
    func reload() throws {
        let stage = try stage()
        let fields = [basic("alice", "correct horse")]
        #expect(try stage.get(fields: fields).status == 200)
        try stage.reload { $0.files["users.htpasswd"] = users.replacingOccurrences(of: "alice", with: "bob") }
        #expect(try stage.get(fields: fields).status == 407)
        #expect(try stage.get(fields: [basic("bob", "correct horse")]).status == 200)
    }

    @Test("many clients with one password are served with few hashes")
    func together() throws {
        let stage = try stage()
        let request = ProxyUnderTest.request("GET", stage.url(), fields: [basic("alice", "correct horse")])
        let clients = try (0..<60).map { _ in try stage.proxy.connect() }
        for client in clients { try client.send(request) }
        for client in clients { #expect(try client.readResponse().status == 200) }
    }

    @Test("guessers fill the queue alone, and are told to retry")
    func guessing() throws {
        let slow = try Programs.passwordHash("x", rounds: 30_000)
        let stage = try stage { $0.files["users.htpasswd"] = "slow:" + slow }
        let clients = try (0..<120).map { _ in try stage.proxy.connect() }
        for (number, client) in clients.enumerated() {
            try client.send(ProxyUnderTest.request("GET", stage.url(), fields: [basic("slow", "guess \(number)")]))
        }
        let statuses = try clients.map { try $0.readResponse().status }
        #expect(Set(statuses) == [407, 503])
    }

    @Test("curl authenticates with --proxy-user, and wget with its own")
    func programs() throws {
        let stage = try stage()
        let proxy = "http://127.0.0.1:\(stage.proxy.port)"
        let curl = try Programs.run(
            "curl",
            ["-sS", "--proxy", proxy, "--proxy-user", "alice:correct horse", stage.url()]
        )
        #expect(curl.output == "nothing", "\(curl.errors)")
        let wget = try Programs.run(
            "wget",
            ["-qO-", "--proxy-user=alice", "--proxy-password=correct horse", stage.url()],
            environment: Programs.environment.merging(["http_proxy": proxy]) { $1 }
        )
        #expect(wget.output == "nothing", "\(wget.errors)")
    }
}
