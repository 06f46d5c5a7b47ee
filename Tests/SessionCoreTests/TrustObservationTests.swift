// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("Each handshake's evaluation is reported once", .onOwnThreads)
struct TrustObservationTests {
    /// The reports of a session as words: host, port, verdict.
    private final class Account {
        var lines: [String] = []

        init(_ session: TestSession) {
            session.manager.sessionDidEvaluateServerTrust = { [unowned self] trust, endpoint in
                lines.append("\(trust.host):\(endpoint.port) \(trust.evaluation.verdict)")
            }
        }
    }

    private static func responding(_ server: TestServer) throws -> ScriptedOrigin {
        try ScriptedOrigin(server) { request in OriginResponse.text(request.target) }
    }

    @Test("an accepted server is reported at its handshake, not for reuse")
    func accepted() throws {
        let server = try TestPKI.shared.server(TestSession.host)
        let origin = try Self.responding(server)
        let session = try TestSession()
        let account = Account(session)
        let endpoint = try TestSession.endpoint(port: origin.port, policy: .pinning(server.pin))
        for _ in 0..<3 { #expect(try session.get(endpoint).error == nil) }
        #expect(account.lines == ["\(TestSession.host):443 pass"])
    }

    @Test("the evaluation is reported before the request leaves")
    func order() throws {
        let origin = try Self.responding(try TestPKI.shared.server(TestSession.host))
        let session = try TestSession()
        let account = Account(session)
        let delegate = RecordingDelegate()
        var toldAtConnect: [String] = []
        delegate.onConnect = { _ in toldAtConnect = account.lines }
        try session.start(delegate, try TestSession.endpoint(port: origin.port))
        try session.finish(delegate)
        #expect(toldAtConnect == ["\(TestSession.host):443 notPinned"])
    }

    @Test("a refused server is reported once for each of its handshakes")
    func refused() throws {
        let origin = try Self.responding(try TestPKI.shared.server(TestSession.host))
        let session = try TestSession()
        let account = Account(session)
        let endpoint = try TestSession.endpoint(port: origin.port, policy: .pinning(.unrelated(7)))
        for _ in 0..<2 { #expect(try session.get(endpoint).error?.code == .pinMismatch) }
        #expect(account.lines == Array(repeating: "\(TestSession.host):443 fail", count: 2))
        #expect(origin.requests.isEmpty)
    }

    @Test("the streams of one HTTP/2 connection make one report")
    func streams() throws {
        let nginx = try NginxOrigin(try TestPKI.shared.server(TestSession.host), http2: true)
        let session = try TestSession()
        let account = Account(session)
        let endpoint = try TestSession.endpoint(port: nginx.port, httpVersion: .http2)
        let delegates = (0..<4).map { _ in RecordingDelegate() }
        delegates[0].onResponse = { _ in .cancel }
        for delegate in delegates { try session.start(delegate, endpoint, target: "/echo/") }
        try session.run(until: "the answers") { delegates.allSatisfy(\.isComplete) }
        let connections = Set(delegates.compactMap { $0.transaction.connection?.identifier })
        #expect(account.lines.count == connections.count)
    }

    @Test("without a handshake nothing is reported")
    func nothingToTell() throws {
        let origin = try ScriptedOrigin(nil) { request in OriginResponse.text(request.target) }
        let session = try TestSession()
        let account = Account(session)
        #expect(try session.get(TestSession.endpoint(port: origin.port, scheme: .http)).error == nil)
        #expect(try session.get(TestSession.endpoint(port: origin.port)).error?.code == .tlsHandshakeFailed)
        #expect(account.lines.isEmpty)
    }

    @Test("a delegate may cancel the task in the report: it ends once")
    func cancelled() throws {
        let server = try TestPKI.shared.server(TestSession.host)
        let origin = try Self.responding(server)
        let session = try TestSession()
        let policies = [try SecurityPolicy.pinning(.unrelated(7)), try .pinning(server.pin)]
        for policy in policies {
            let endpoint = try TestSession.endpoint(port: origin.port, policy: policy)
            let delegate = RecordingDelegate()
            let task = try session.start(delegate, endpoint)
            session.manager.sessionDidEvaluateServerTrust = { [unowned task] _, _ in task.cancel() }
            try session.finish(delegate)
            session.manager.sessionDidEvaluateServerTrust = nil
            #expect(delegate.error?.code == .cancelled)
            #expect(delegate.calls == [.completed])
            #expect(origin.requests.isEmpty)
            #expect(session.manager.taskCount == 0)
        }
        let endpoint = try TestSession.endpoint(port: origin.port, policy: .pinning(server.pin))
        #expect(try session.get(endpoint).error == nil)
    }
}
