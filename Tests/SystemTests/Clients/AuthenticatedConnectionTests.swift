// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

/// An origin that authenticates connections, as NTLM does (RFC 4559): the state is the connection's, not the request's.
///
/// `NTLM hello` is answered with a challenge that names the connection; `NTLM NAME CHALLENGE` makes the connection NAME's.
private let authenticating: ScriptedOrigin.Script = { connection in
    var user: String?
    while let request = try connection.readRequest() {
        let words = (request["Authorization"] ?? "").split(separator: " ").map(String.init)
        let isOurs = ["ntlm", "negotiate"].contains(words.first?.lowercased())
        if isOurs, words.count == 2 {
            let fields = ["WWW-Authenticate: \(words[0]) challenge\(connection.number)"]
            try connection.respond("go on", status: "401 Unauthorized", fields: fields)
            continue
        }
        if isOurs, words.count == 3, words[2] == "challenge\(connection.number)" { user = words[1] }
        if request.target == "/cut" { return connection.close(.clean) }
        let storable = ["Content-Type: text/plain", "Cache-Control: public, max-age=1000"]
        if let user {
            try connection.respond("\(user) on \(connection.number)", fields: storable)
        } else if request.target == "/open" {
            try connection.respond("open to all", fields: storable)
        } else {
            let fields = ["WWW-Authenticate: Basic realm=\"a, NTLM\", nTlM"]
            try connection.respond("who", status: "401 Unauthorized", fields: fields)
        }
    }
}

@Suite("Connections that a client has authenticated", .onOwnThreads)
struct AuthenticatedConnectionTests {
    /// A client of one listener, on one connection.
    private struct Client {
        let client: TestClient
        let url: (String) -> String

        func get(_ path: String = "/", _ authorization: String? = nil) throws -> HTTPMessage {
            let fields = authorization.map { ["Authorization: \($0)"] } ?? []
            try client.send(ProxyUnderTest.request("GET", url(path), fields: fields))
            return try client.readResponse()
        }

        /// The handshake of three messages; the first of them is the request that was refused.
        func authenticate(_ user: String, _ scheme: String = "NTLM", knowing isRefused: Bool = true) throws
            -> HTTPMessage
        {
            if isRefused { #expect(try get().status == 401) }
            let challenge = try get("/", "\(scheme) hello")
            let word = challenge["WWW-Authenticate"]?.split(separator: " ").last ?? ""
            #expect(challenge.status == 401 && word.hasPrefix("challenge"), "\(challenge.text)")
            return try get("/", "\(scheme) \(user) \(word)")
        }
    }

    enum Way: CaseIterable { case forward, gateway }

    private func stage(_ change: (inout ProxySettings) -> Void = { _ in }) throws -> Stage {
        try Stage(
            {
                $0.members["workers"] = 1
                $0.addGateway(to: Stage.host)
                change(&$0)
            },
            script: authenticating
        )
    }

    private func client(_ stage: Stage, _ way: Way = .forward) throws -> Client {
        let gateway = "http://localhost:\(stage.proxy.port(of: 1))"
        return Client(client: try stage.proxy.connect(to: way == .forward ? 0 : 1)) { path in
            way == .forward ? stage.url(path) : gateway + path
        }
    }

    @Test(
        "an authenticated connection is one client's, and ends with it",
        arguments: Way.allCases,
        Way.allCases
    )
    func twoClients(first: Way, second: Way) throws {
        let stage = try stage()
        let (ann, bob) = (try client(stage, first), try client(stage, second))
        let response = try ann.authenticate("ann")
        #expect(response.status == 200 && response.text.hasPrefix("ann on "), "\(response.text)")
        // Without credentials: the other client is nobody.
        #expect(try bob.get().status == 401)
        #expect(try ann.get().text == response.text)
        let other = try bob.authenticate("bob", "Negotiate")
        #expect(other.text.hasPrefix("bob on ") && other.text.last != response.text.last, "\(other.text)")
        for _ in 0..<3 {
            #expect(try ann.get().text == response.text)
            #expect(try bob.get().text == other.text)
            #expect(try stage.get().status == 401)
        }
        ann.client.close()
        let number = Int(String(response.text.last!))!
        try stage.origin.wait(for: "the end of the connection") { $0[number].isClosed ? true : nil }
        #expect(try bob.get().text == other.text)
        #expect(try client(stage).get().status == 401)
    }

    @Test("a client that authenticates at first gets its own connection", arguments: ["NTLM", "nEgOtIaTe"])
    func preemptive(scheme: String) throws {
        let stage = try stage()
        // A kept connection, which the handshake leaves to others.
        #expect(try stage.proxy.get(stage.url(), fields: ["Authorization: Basic eDp5"]).status == 401)
        let ann = try client(stage)
        let response = try ann.authenticate("ann", scheme, knowing: false)
        #expect(response.text.hasPrefix("ann on "), "\(response.text)")
        #expect(try stage.get().status == 401)
        #expect(try ann.get().text == response.text)
    }

    @Test("the streams of one HTTP/2 connection are one client")
    func http2() throws {
        let stage = try stage {
            $0.listeners[0]["http2"] = true
            $0.listeners[1]["http2"] = true
        }
        func ask(_ peer: HTTP2Peer, _ authorization: String? = nil) throws -> PeerStream {
            try peer.request(authority: Stage.host, fields: authorization.map { [("authorization", $0)] } ?? [])
        }
        let (ann, bob) = (try HTTP2Peer(stage.proxy.connect()), try HTTP2Peer(stage.proxy.connect()))
        #expect(try ann.finish(ask(ann)).status == 401)
        let challenge = try ann.finish(ask(ann, "NTLM hello")).head["www-authenticate"] ?? ""
        let response = try ann.finish(ask(ann, "NTLM ann \(challenge.split(separator: " ").last ?? "")"))
        #expect(response.status == 200 && response.text.hasPrefix("ann on "), "\(response.text)")
        let streams = try (0..<5).map { _ in (try ask(ann), try ask(bob)) }
        for (own, other) in streams {
            #expect(try ann.finish(own).text == response.text)
            #expect(try bob.finish(other).status == 401)
        }
        #expect(try stage.get().status == 401)
    }

    @Test("a request on such a connection is not repeated elsewhere")
    func noRepetition() throws {
        let stage = try stage()
        let ann = try client(stage)
        #expect(try ann.authenticate("ann").status == 200)
        let cut = try ann.get("/cut")
        #expect(cut.status == 502 && cut.problemCode == "response_truncated", "\(cut.text)")
        #expect(stage.origin.requests.filter { $0.target == "/cut" }.count == 1)
        #expect(try client(stage).get().status == 401)
    }

    @Test("a response on it is not stored, and stored ones are not used")
    func cache() throws {
        let stage = try stage { $0.members["cache"] = [String: Any]() }
        let (ann, bob) = (try client(stage), try client(stage))
        let response = try ann.authenticate("ann")
        #expect(response.text.hasPrefix("ann on "))
        #expect(try ann.get().text == response.text)
        #expect(try bob.get().status == 401)
        let other = try bob.authenticate("bob")
        #expect(other.text.hasPrefix("bob on "), "\(other.text)")
        #expect(try ann.get().text == response.text)
        #expect(try stage.get().status == 401)
        let outcomes = try stage.proxy.waitForTaskLines(9).map { $0.string("cache") ?? "-" }
        #expect(!outcomes.contains("hit"), "\(outcomes)")
        // The response that is stored for all is not the one of an authenticated connection.
        let open = try (0..<2).map { _ in try client(stage).get("/open") }
        #expect(open.allSatisfy { $0.text == "open to all" } && open[1]["Cache-Status"]?.contains("hit") == true)
        #expect(try ann.get("/open").text == response.text)
    }

    @Test("a request that authenticates uses HTTP/1.1 towards a server of HTTP/2")
    func http2Origin() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, protocols: ["h2", "http/1.1"], script: authenticating)
        let nginx = try NginxOrigin(server, http2: true)
        for port in [origin.port, nginx.port] {
            var settings = ProxySettings(trusting: Stage.pki)
            settings.serve(Stage.host, server, at: port)
            settings.hosts[Stage.host]?["httpVersion"] = "2"
            settings.members["workers"] = 1
            let proxy = try ProxyUnderTest(settings)
            let url = "http://\(Stage.host)/plain"
            if port == nginx.port {
                #expect(try proxy.get(url).status == 200)
                #expect(try proxy.get(url, fields: ["Authorization: Negotiate abc"]).status == 200)
                #expect(try proxy.get(url).status == 200)
                let names = try proxy.waitForTaskLines(3).map {
                    $0.transactions.first?["networkProtocolName"] as? String
                }
                #expect(names == ["h2", "http/1.1", "h2"])
            } else {
                let ann = Client(client: try proxy.connect()) { "http://\(Stage.host)\($0)" }
                let response = try ann.authenticate("ann", "Negotiate", knowing: false)
                #expect(response.text.hasPrefix("ann on "), "\(response.text)")
                #expect(try ann.get().text == response.text)
            }
        }
    }
}
