// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import SessionCore

/// Bytes behind a response belong to no request: a connection that has them carries no further one, or they would be the
/// response to it.
@Suite("Bytes behind a response", .onOwnThreads)
struct ExcessBytesTests {
    /// A response without a body.
    enum Response: CaseIterable, CustomTestStringConvertible {
        case head, noContent, notModified, empty, length, chunks

        var method: HTTPMethod { self == .head ? .head : .get }

        var text: String {
            switch self {
            case .head: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
            case .noContent: "HTTP/1.1 204 No Content\r\n\r\n"
            case .notModified: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"
            case .empty: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
            case .length: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            case .chunks: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
            }
        }

        var testDescription: String { "\(self)" }
    }

    private static let poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"

    private func server(_ scheme: Endpoint.Scheme) throws -> TestServer? {
        scheme == .https ? try TestPKI.shared.server(TestSession.host) : nil
    }

    @Test(
        "bytes together with a response end its connection",
        arguments: Response.allCases,
        [Endpoint.Scheme.https, .http]
    )
    func atOnce(response: Response, scheme: Endpoint.Scheme) throws {
        let origin = try ScriptedOrigin(server(scheme)) { connection in
            while try connection.readRequest() != nil { try connection.write(response.text + Self.poison) }
        }
        let endpoint = try TestSession.endpoint(port: origin.port, scheme: scheme)
        let session = try TestSession()
        for _ in 0..<3 {
            let delegate = RecordingDelegate()
            try session.start(delegate, endpoint, response.method)
            try session.finish(delegate)
            #expect(delegate.error == nil && delegate.head?.fields.value(for: "Content-Length") != "6")
            #expect(delegate.text == ([.length, .chunks].contains(response) ? "ok" : ""))
        }
        #expect(origin.connections.map(\.requests.count) == [1, 1, 1])
    }

    @Test(
        "late bytes end an idle connection, and the next request has a new one",
        arguments: Response.allCases,
        [Endpoint.Scheme.https, .http]
    )
    func later(response: Response, scheme: Endpoint.Scheme) throws {
        let gate = Gate()
        let origin = try ScriptedOrigin(server(scheme)) { connection in
            guard connection.number == 0 else {
                while try connection.readRequest() != nil { try connection.respond("fresh") }
                return
            }
            _ = try connection.readRequest()
            try connection.write(response.text)
            try gate.pass()
            try connection.write(Self.poison)
            connection.readToEnd()
        }
        let endpoint = try TestSession.endpoint(port: origin.port, scheme: scheme)
        let session = try TestSession()
        let first = RecordingDelegate()
        try session.start(first, endpoint, response.method)
        try session.finish(first)
        #expect(first.error == nil)
        session.settle()
        #expect(origin.connections.map(\.isClosed) == [false])
        gate.open()
        try session.run(until: "the end of the connection") { origin.connections[0].isClosed }
        let delegate = try session.get(endpoint, target: "/next")
        #expect(delegate.error == nil && delegate.text == "fresh")
        #expect(origin.connections.map(\.requests.count) == [1, 1])
    }

    @Test("early bytes are not the response of a waiting request")
    func whileOneWaits() throws {
        let gate = Gate()
        let origin = try ScriptedOrigin(server(.https)) { connection in
            guard let request = try connection.readRequest() else { return }
            if connection.number == 0 {
                try gate.pass()
                return try connection.write(Response.noContent.text + Self.poison)
            }
            try connection.respond(request.target)
        }
        let endpoint = try TestSession.endpoint(port: origin.port, connectionLimit: 1)
        let session = try TestSession()
        let (first, second) = (RecordingDelegate(), RecordingDelegate())
        try session.start(first, endpoint)
        try session.start(second, endpoint, target: "/second")
        session.settle()
        gate.open()
        try session.finish(first, second)
        #expect(first.head?.status == 204 && first.error == nil)
        #expect(second.error == nil && second.text == "/second")
    }
}
