// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import SessionCore
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("The credentials of one request")
struct RequestCredentialsTests {
    /// Two rules, with a credential of a command each: the second one signs.
    private final class Stage {
        let loop: EventLoop
        let board: CredentialBoard
        let desk: CredentialDesk
        var credentials = RequestCredentials()
        var told: [String] = []
        private let questions = Monitor<[String]>([])

        var asked: [String] { questions.with { $0 } }

        init() throws {
            loop = try EventLoop()
            loop.turn(waitingAtMost: TimeSpan(nanoseconds: 0))
            board = CredentialBoard(count: 4, loop: loop) { [questions] index, refused in
                questions.with { $0.append("\(index) \(refused.map(String.init) ?? "-")") }
            }
            var configuration = Configuration()
            configuration.credentials = [
                CredentialDefinition(name: "key", source: .command(["/bin/true"])), Self.signing,
                CredentialDefinition(name: "fixed", source: .env(name: "KEY")), Self.asked,
            ]
            var requests = RequestsConfiguration()
            for name in ["key", "aws", "fixed", "asked"] {
                var rule = RequestRule(id: name, .allow)
                rule.credentials = [name]
                requests.rules.append(rule)
            }
            configuration.requests = requests
            desk = CredentialDesk(board, configuration, loop: loop)
        }

        private static let signing = CredentialDefinition(
            name: "aws",
            source: .awsSigV4(
                AWSSource(scope: AWSScope(region: "eu-west-1", service: "sts"), keys: .command(["/bin/true"]))
            )
        )

        private static let asked: CredentialDefinition = {
            var definition = CredentialDefinition(name: "asked", source: .env(name: "KEY"))
            (definition.header, definition.prefix, definition.placeholder) = ("X-Api-Key", "", "agent-key-1")
            return definition
        }()

        func publish(_ text: String, version: Int) throws {
            let output = try CredentialOutput(Array(text.utf8), as: .plain, now: 0)
            let definition = CredentialDefinition(name: "key", source: .command(["/bin/true"]))
            board.publish(
                0,
                CredentialNews(value: CredentialValue(definition, output, end: nil, version: version)),
                .run
            )
        }

        func publishKeys() throws {
            let text = #"{"Version": 1, "AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "wJalrXUtnFEMI/K7MDENG"}"#
            let output = try CredentialOutput(Array(text.utf8), as: .keys, now: 0)
            board.publish(1, CredentialNews(value: CredentialValue(Self.signing, output, end: nil)), .run)
        }

        func begin(_ rule: Int?, _ fields: String...) throws -> String {
            name(credentials.begin(desk, ofRule: rule, for: try head(fields)))
        }

        func beginHop(_ rule: Int?, to target: String = "/", keepsBody: Bool, _ fields: String...) throws -> String {
            let target = Array(target.utf8)
            return name(
                credentials.begin(desk, ofRule: rule, forHopOf: try head(fields), to: target, keepsBody: keepsBody)
            )
        }

        func wait(_ fields: String...) throws {
            credentials.awaitSources(for: try head(fields), atMost: .seconds(5)) { [unowned self] in
                told.append(name($0))
            }
        }

        func head(_ fields: [String]) throws -> RequestHead {
            let text = (["POST http://api.example/ HTTP/1.1", "Host: api.example"] + fields + ["", ""])
                .joined(separator: "\r\n")
            var parser = RequestParser(limits: HeadLimits())
            var head = RequestHead()
            guard case .complete = parser.parse(Array(text.utf8).span, into: &head).outcome else { throw NoRequest() }
            return head
        }

        private struct NoRequest: Error {}

        private func name(_ step: RequestCredentials.Step) -> String {
            switch step {
            case .ready: "ready"
            case .gather: "gather"
            case .wait: "wait"
            case .refused(let problem): "\(problem.status) \(problem.code.rawValue)"
            }
        }
    }

    @Test("a request without credentials is ready")
    func none() throws {
        let stage = try Stage()
        #expect(try stage.begin(nil) == "ready" && stage.begin(7) == "ready" && stage.credentials.rule == nil)
    }

    @Test("a request waits for its source, and is ready with its value")
    func waiting() throws {
        let stage = try Stage()
        #expect(try stage.begin(0) == "wait")
        try stage.wait()
        #expect(stage.board.waiting == 1 && stage.told.isEmpty)
        try stage.publish("value-one", version: 1)
        #expect(stage.told == ["ready"])
        #expect(try stage.begin(0) == "ready")
    }

    @Test("a request that is over waits no more, and is told nothing")
    func over() throws {
        let stage = try Stage()
        #expect(try stage.begin(0) == "wait")
        try stage.wait()
        stage.credentials.end()
        #expect(stage.board.waiting == 0)
        try stage.publish("value-one", version: 1)
        #expect(stage.told.isEmpty && stage.credentials.rule == nil)
    }

    @Test("the end of a policy ends the waits for its sources")
    func retired() throws {
        let stage = try Stage()
        #expect(try stage.begin(0) == "wait")
        try stage.wait()
        stage.desk.retire()
        #expect(stage.told == ["502 credential_unavailable"] && stage.board.waiting == 0)
    }

    @Test("a body is collected where a signature needs it")
    func gathering() throws {
        let stage = try Stage()
        #expect(try stage.begin(1, "Content-Length: 3") == "wait")
        try stage.wait("Content-Length: 3")
        try stage.publishKeys()
        #expect(stage.told == ["gather"])
        #expect(try stage.begin(1, "Content-Length: 3") == "gather")
        #expect(try stage.begin(1, "Content-Length: 0") == "ready" && stage.begin(1) == "ready")
        let digest = "X-Amz-Content-SHA256: " + String(repeating: "a", count: 64)
        #expect(try stage.begin(1, "Content-Length: 3", digest) == "ready")
        _ = stage.credentials.body.begin(.chunked) {}
        _ = stage.credentials.body.end()
        #expect(try stage.begin(1, "Content-Length: 3") == "ready", "its digest is there")
    }

    @Test("a body that is too long to be signed is refused at once")
    func tooLong() throws {
        let stage = try Stage()
        try stage.publishKeys()
        #expect(try stage.begin(1, "Content-Length: 1048576") == "gather")
        #expect(try stage.begin(1, "Content-Length: 1048577") == "413 request_too_large")
    }

    @Test("a hop that keeps its body is not signed, a bodiless one is")
    func hops() throws {
        let stage = try Stage()
        try stage.publishKeys()
        try stage.publish("value-one", version: 1)
        #expect(try stage.beginHop(1, keepsBody: true, "Content-Length: 3") == "502 credential_withheld")
        #expect(try stage.beginHop(1, keepsBody: false, "Content-Length: 3") == "ready")
        #expect(try stage.beginHop(0, keepsBody: true, "Content-Length: 3") == "ready")
        #expect(try stage.beginHop(nil, keepsBody: true) == "ready" && stage.credentials.rule == nil)
    }

    @Test("a hop that waits for its keys collects no body")
    func waitingHop() throws {
        let stage = try Stage()
        #expect(try stage.beginHop(1, keepsBody: false, "Content-Length: 3") == "wait")
        try stage.wait("Content-Length: 3")
        try stage.publishKeys()
        #expect(stage.told == ["ready"])
        // A request that starts again is no hop.
        stage.credentials.restart()
        #expect(try stage.begin(1, "Content-Length: 3") == "gather")
    }

    @Test("a hop to a signed URL is not signed")
    func signedHop() throws {
        let stage = try Stage()
        try stage.publishKeys()
        try stage.publish("value-one", version: 1)
        let target = "/a?X-Amz-Signature=b"
        #expect(try stage.beginHop(1, to: target, keepsBody: false) == "403 credential_withheld")
        #expect(try stage.beginHop(0, to: target, keepsBody: false) == "ready")
        #expect(try stage.beginHop(nil, to: target, keepsBody: false) == "ready")
    }

    @Test("a hop needs its rule's placeholder, and its page's site")
    func demandOfHop() throws {
        let stage = try Stage()
        #expect(try stage.beginHop(3, keepsBody: false) == "403 credential_required")
        #expect(try stage.beginHop(3, keepsBody: false, "X-Api-Key: agent-key-1") == "wait")
        #expect(try stage.beginHop(nil, keepsBody: false, "X-Api-Key: agent-key-1") == "403 credential_misdirected")
        #expect(try stage.beginHop(0, keepsBody: false, "Sec-Fetch-Site: cross-site") == "403 credential_withheld")
        #expect(try stage.beginHop(0, keepsBody: false, "Origin: https://evil.example") == "403 credential_withheld")
    }

    @Test("a request without its value may go to no server")
    func withoutValue() throws {
        let stage = try Stage()
        let pki = TestPKI.shared
        let server = try pki.server("api.example")
        let policy = try SecurityPolicy.pinning(server.pin)
        let host = try Host("api.example")
        let pass = policy.evaluate(chain: server.chain, host: host, anchors: pki.anchors, at: nil)
        let endpoint = Endpoint(
            scheme: .https,
            host: host,
            port: 443,
            policy: policy,
            anchors: pki.anchors,
            generation: 1
        )
        let request = SessionRequest(endpoint: endpoint, method: .get, target: Array("/".utf8), fields: HeaderFields())
        #expect(try stage.begin(0) == "wait")
        let withoutValue = stage.credentials.fields(of: request)
        let none = try #require(withoutValue)
        #expect(pass.verdict == .pass && none.fields.isEmpty && !none.mayGo(under: pass))
        try stage.publish("value-one", version: 1)
        #expect(try stage.begin(0) == "ready")
        let withValue = stage.credentials.fields(of: request)
        let one = try #require(withValue)
        #expect(one.fields.count == 1 && one.mayGo(under: pass))
    }

    @Test("each request has its own signature, and other fields are shared")
    func signaturesOfTheirOwn() throws {
        let stage = try Stage()
        try stage.publish("value-one", version: 1)
        try stage.publishKeys()
        func made(_ rule: Int, _ target: String) throws -> GuardedFields? {
            let endpoint = Endpoint(
                scheme: .https,
                host: try Host("api.example"),
                port: 443,
                policy: .unpinned,
                anchors: TrustAnchors(certificates: []),
                generation: 1
            )
            let request = SessionRequest(
                endpoint: endpoint,
                method: .get,
                target: Array(target.utf8),
                fields: HeaderFields()
            )
            #expect(try stage.begin(rule) == "ready")
            return stage.credentials.fields(of: request)
        }
        let signed = try ["/a", "/b"].map { try made(1, $0)?.fields.value(for: "authorization") }
        #expect(signed[0] != nil && signed[1] != nil && signed[0] != signed[1])
        var other = RequestCredentials()
        swap(&other, &stage.credentials)
        let plain = try ["/a", "/b"].map { try made(0, $0) }
        #expect(plain[0] != nil && plain[0] === plain[1])
    }

    private func request(_ fields: HeaderFields = HeaderFields()) throws -> SessionRequest {
        let endpoint = Endpoint(
            scheme: .https,
            host: try Host("api.example"),
            port: 443,
            policy: .unpinned,
            anchors: TrustAnchors(certificates: []),
            generation: 1
        )
        return SessionRequest(endpoint: endpoint, method: .get, target: Array("/".utf8), fields: fields)
    }

    private func isMasked(_ value: String, by guarded: GuardedFields?) -> Bool {
        var head = ResponseHead()
        head.changeFields { $0.append(name: Array("X-Echo".utf8).span, value: Array(value.utf8).span) }
        return guarded?.masked(head) != nil
    }

    @Test("values that an exchange has sent are masked in later responses")
    func earlierValues() throws {
        let stage = try Stage()
        try stage.publish("value-one", version: 1)
        let plain = try request()
        #expect(try stage.begin(nil) == "ready" && stage.credentials.fields(of: plain) == nil)
        #expect(try stage.begin(0) == "ready" && isMasked("value-one", by: stage.credentials.fields(of: plain)))
        #expect(try stage.beginHop(nil, keepsBody: false) == "ready")
        let fields = stage.credentials.fields(of: plain)
        let hop = try #require(fields)
        #expect(hop.fields.isEmpty && hop.mayGo(under: nil) && isMasked("value-one", by: hop))
        // On a connection that a client authenticates, too.
        var ofClient = HeaderFields()
        ofClient.append(.authorization, Array("NTLM abc".utf8).span)
        let authenticating = try request(ofClient)
        #expect(isMasked("value-one", by: stage.credentials.fields(of: authenticating)))
        try stage.publish("value-two", version: 2)
        stage.credentials.restart()
        #expect(try stage.begin(0) == "ready")
        let again = stage.credentials.fields(of: plain)
        #expect(isMasked("value-one", by: again) && isMasked("value-two", by: again))
        stage.credentials.restart()
        stage.credentials.end()
        #expect(try stage.begin(nil) == "ready" && stage.credentials.fields(of: plain) == nil)
    }

    @Test("a returned signature is masked")
    func signatures() throws {
        let stage = try Stage()
        try stage.publishKeys()
        #expect(try stage.begin(1) == "ready")
        let plain = try request()
        let fields = stage.credentials.fields(of: plain)
        let guarded = try #require(fields)
        let value = try #require(guarded.fields.value(for: "authorization"))
        #expect(isMasked(value, by: guarded) && isMasked(String(value.suffix(64)).uppercased(), by: guarded))
        #expect(!isMasked(String(value.dropLast(64)), by: guarded), "the name of the key is no secret")
    }

    @Test("a 401 that is passed on renews for the next request")
    func refusals() throws {
        let stage = try Stage()
        try stage.publish("value-one", version: 1)
        #expect(try stage.begin(0) == "ready")
        stage.credentials.noteRefusal()
        #expect(stage.asked == [], "nothing was sent")
        let plain = try request()
        _ = stage.credentials.fields(of: plain)
        stage.credentials.noteRefusal()
        stage.credentials.noteRefusal()
        #expect(stage.asked == ["0 1"] && stage.board.waiting == 0)
        try stage.publish("value-two", version: 2)
        stage.credentials.noteRefusal()
        #expect(stage.asked == ["0 1"], "there is another value already")
    }

    @Test("a refused value is replaced if its source may have another")
    func renewal() throws {
        let stage = try Stage()
        try stage.publish("value-one", version: 1)
        let request = try request()
        #expect(try stage.begin(0) == "ready" && stage.credentials.renewable == nil, "nothing was sent")
        #expect(stage.credentials.fields(of: request)?.fields.count == 1)
        let refused = try #require(stage.credentials.renewable)
        var heard: [String] = []
        stage.credentials.renew(refused, atMost: .seconds(5)) { heard.append($0?.code.rawValue ?? "renewed") }
        try stage.publish("value-two", version: 2)
        #expect(heard == ["renewed"])
        _ = stage.credentials.fields(of: request)
        let sent = try #require(stage.credentials.renewable)
        #expect(sent.values.map(\.version) == [2])
        // A policy that comes meanwhile does not make the refused value good.
        let other = try Stage()
        try other.publish("value-two", version: 2)
        other.credentials = stage.credentials
        let again = try #require(other.credentials.renewable)
        other.credentials.renew(again, atMost: .seconds(5)) { _ in }
        other.credentials.restart()
        other.board.publish(0, CredentialNews(value: again.values[0]), .run)
        #expect(try other.begin(0) == "wait")
        try other.wait()
        try other.publish("value-three", version: 3)
        #expect(other.told == ["ready"])
        let fixed = CredentialDefinition(name: "fixed", source: .env(name: "KEY"))
        #expect(!RuleCredentials(["fixed"], of: [fixed], place: 0).canRenew, "a variable stays")
    }
}

@Suite("Bodies that are signed")
struct SignedBodyTests {
    @Test("the digest covers all pieces, and the waiting step runs once")
    func digest() {
        var body = SignedBody()
        var steps = 0
        #expect(!body.isGathering && body.end() == nil)
        #expect(body.begin(.chunked) { steps += 1 } == 0)
        for piece in ["a", "", "bc"] {
            let bytes = Array(piece.utf8)
            #expect(body.add(bytes.span) == bytes.count)
        }
        #expect(body.isGathering && body.digest == nil && body.count == 3)
        body.end()?()
        #expect(steps == 1 && !body.isGathering && body.end() == nil)
        // FIPS 180-2, appendix B.1.
        #expect(
            body.digest.map { $0.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }
                == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        )
        body.forgetDigest()
        #expect(body.digest == nil && body.count == 3 && body.held == 3)
    }

    @Test("a body of known length is counted once, before it comes")
    func known() {
        var body = SignedBody()
        let bytes: [UInt8] = [1, 2]
        #expect(body.begin(.length(4)) {} == 4 && body.held == 4)
        #expect(body.add(bytes.span) == 0)
        #expect(body.add(bytes.span) == 0)
        #expect(body.held == 4 && body.count == 4)
    }

    @Test("a body beyond the limit is refused at the first byte above it")
    func limit() {
        var body = SignedBody()
        _ = body.begin(.chunked) {}
        let half = [UInt8](repeating: 0, count: SignedBody.limit / 2)
        let more: [UInt8] = [0]
        #expect(body.add(half.span) != nil)
        #expect(body.add(half.span) != nil)
        #expect(body.add(more.span) == nil)
    }
}
