// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import SessionCore
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("The client's response")
struct ClientResponseTests {
    private let services: WorkerServices
    private let forward: ListenerConfiguration
    private let gateway: ListenerConfiguration

    init() throws {
        var configuration = Configuration()
        var upgraded = HostConfiguration(host: try Host("api.example.com"))
        upgraded.upgrade = true
        configuration.hosts = [upgraded]
        let snapshot = PolicySnapshot(
            PolicyParts(
                configuration: configuration,
                pinnedDomains: PinnedDomains(),
                trustAnchors: TrustAnchors(certificates: [])
            ),
            generation: 1
        )
        let loop = try EventLoop()
        let shares = DescriptorShares(limit: 4096, opened: 100, workers: 1)
        services = WorkerServices(
            loop: loop,
            generation: try Generation(snapshot, loop: loop, workers: 1, descriptors: shares),
            server: ServerState(descriptors: shares, heldBytes: 1 << 30),
            monitor: try PinMonitor(snapshot: snapshot),
            passwords: PasswordVerifier(),
            traces: TraceExport(snapshot: snapshot),
            log: nil,
            recentTasks: nil,
            cache: nil,
            pseudonym: Array("pinproxy-test".utf8)
        )
        let endpoint = ListenerConfiguration.Endpoint.address(try AddressAndPort(parsing: "127.0.0.1:0"))
        forward = ListenerConfiguration(endpoint: endpoint)
        gateway = ListenerConfiguration(
            endpoint: endpoint,
            mode: .gateway,
            upstream: ListenerConfiguration.Upstream(host: try Host("api.example.com"))
        )
    }

    /// The client's bytes when the origin responds with a head and these pieces of a body.
    private func written(
        _ response: String,
        pieces: [String] = [],
        to request: String = "GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        isUpgraded: Bool = false,
        throughGateway: Bool = false,
        requestIsWhole: Bool = true
    ) throws -> (text: String, persists: Bool) {
        var requestParser = RequestParser()
        var requestHead = RequestHead()
        try #require(requestParser.parse(Array(request.utf8).span, into: &requestHead).outcome == .complete)
        var responseParser = ResponseHeadParser()
        var responseHead = ResponseHead()
        var outcome = ResponseHeadParser.Outcome.needMore
        for line in response.split(separator: "\r\n", omittingEmptySubsequences: false).dropLast() {
            outcome = responseParser.consume(
                line: Array("\(line)\r\n".utf8).span,
                answering: requestHead.method,
                into: &responseHead
            )
        }
        try #require(outcome == .complete)
        let route = Route(
            destination: .refused(Problem(.internal, "unused")),
            isUpgraded: isUpgraded,
            rewritesUpgraded: true,
            logPrefix: []
        )
        var response = ClientResponse()
        var output = ByteBuffer()
        let context = ResponseContext(
            pseudonym: services.pseudonym,
            date: responseHead.fields.contains(.date) ? nil : services.httpDate,
            mayPersist: requestIsWhole,
            rewriter: ResponseRewriter.make(
                on: route,
                throughGateway ? gateway : forward,
                services.generation.router,
                clientAuthority: throughGateway ? Array("localhost:9001".utf8) : [],
                clientOrigin: nil,
                base: nil
            )
        )
        response.begin(responseHead, to: requestHead, context: context)
        ClientResponse.writeHead(responseHead, response.form, to: requestHead, context: context, output: &output)
        for piece in pieces {
            response.writePieceHead(piece.utf8.count, output: &output)
            output.append(text: piece)
            response.writePieceEnd(output: &output)
        }
        response.writeEnd(output: &output)
        #expect(response.hasBegun)
        #expect(response.status == responseHead.status)
        return (output.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }, response.persists)
    }

    private static let date = "Date: Sat, 21 Nov 2026 06:00:00 GMT\r\n"
    private static let via = "Via: 1.1 pinproxy-test\r\n"

    @Test("a body of known length stays as it is")
    func plain() throws {
        let (text, persists) = try written(
            "HTTP/1.1 200 Fine\r\n\(Self.date)Content-Length: 5\r\nConnection: X\r\nX: 1\r\n\r\n",
            pieces: ["hel", "lo"]
        )
        #expect(text == "HTTP/1.1 200 OK\r\n\(Self.date)Content-Length: 5\r\n\(Self.via)\r\nhello")
        #expect(persists)
    }

    @Test("a body of unknown length is chunked for HTTP/1.1")
    func chunked() throws {
        for framing in ["Transfer-Encoding: chunked\r\n", ""] {
            let (text, persists) = try written("HTTP/1.1 200 OK\r\n\(Self.date)\(framing)\r\n", pieces: ["hel", "lo"])
            #expect(
                text == "HTTP/1.1 200 OK\r\n\(Self.date)\(Self.via)Transfer-Encoding: chunked\r\n\r\n"
                    + "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
            )
            #expect(persists)
        }
    }

    @Test("a body for HTTP/1.0 ends with the connection")
    func untilClose() throws {
        let (text, persists) = try written(
            "HTTP/1.1 200 OK\r\n\(Self.date)Transfer-Encoding: chunked\r\n\r\n",
            pieces: ["hello"],
            to: "GET http://api.example.com/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        )
        #expect(text == "HTTP/1.1 200 OK\r\n\(Self.date)\(Self.via)Connection: close\r\n\r\nhello")
        #expect(!persists)
    }

    @Test("a connection stays if the client wants it and its request was read")
    func persistence() throws {
        let response = "HTTP/1.1 204 No Content\r\n\(Self.date)\r\n"
        let head = "HTTP/1.1 204 No Content\r\n\(Self.date)\(Self.via)"
        let cut = try written(response, requestIsWhole: false)
        #expect(cut.text == "\(head)Connection: close\r\n\r\n")
        #expect(!cut.persists)
        let close = "GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n"
        #expect(try written(response, to: close).text == "\(head)Connection: close\r\n\r\n")
        let old = "GET http://api.example.com/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        #expect(try written(response, to: old).text == "\(head)Connection: keep-alive\r\n\r\n")
    }

    @Test("rule 53: Date is added when the origin sent none")
    func addsDate() throws {
        let (text, _) = try written("HTTP/1.1 204 No Content\r\n\r\n")
        #expect(text.contains("\r\nDate: "))
    }

    @Test("upgraded clients are led to http, a gateway's to the gateway")
    func rewriting() throws {
        let response =
            "HTTP/1.1 302 Found\r\n\(Self.date)Location: https://api.example.com/x\r\n"
            + "Strict-Transport-Security: max-age=1\r\nSet-Cookie: a=1; secure ;Path=/\r\nContent-Length: 0\r\n\r\n"
        func fields(_ location: String, isRewritten: Bool) -> String {
            "HTTP/1.1 302 Found\r\n\(Self.date)Location: \(location)\r\n"
                + (isRewritten ? "" : "Strict-Transport-Security: max-age=1\r\n")
                + "Set-Cookie: a=1;\(isRewritten ? "" : " secure ;")Path=/\r\nContent-Length: 0\r\n\(Self.via)\r\n"
        }
        #expect(try written(response).text == fields("https://api.example.com/x", isRewritten: false))
        let upgraded = try written(response, isUpgraded: true).text
        #expect(upgraded == fields("http://api.example.com/x", isRewritten: true))
        let gateway = try written(response, throughGateway: true).text
        #expect(gateway == fields("http://localhost:9001/x", isRewritten: true))
    }
}
