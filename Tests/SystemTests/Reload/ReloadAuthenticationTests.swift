// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

/// Clients with passwords that are being verified when the policy is replaced, and clients that are already
/// authenticated.
@Suite("Reload: clients that authenticate", .serialized, .waitingOnOwnThreads)
struct ReloadAuthenticationTests {
    private typealias Way = ReloadPutOffTests.Way

    /// The hash of the password "x", slow on purpose, so that a reload fits in between.
    private static let slowHash =
        "$6$rounds=200000$saltsalt$o.h9sgZtM8Cuj/Y.m9/pooEo7pY61dKJuMzWBe8giK7nGulVl5d5rOdKuKd5dtY7E9hI1LLXbe428gIyuxW.E0"

    private static func field(_ user: String, _ password: String) -> String {
        "Proxy-Authorization: Basic " + Data("\(user):\(password)".utf8).base64EncodedString()
    }

    private func stage() throws -> WayStage {
        var stage = try WayStage(always: { settings in
            settings.files["users"] = "alice:\(Self.slowHash)\n"
            settings.members["authentication"] = ["basic": ["file": "users"]]
        })
        stage.patience = Self.patience
        return stage
    }

    /// The proxy's thread for passwords gives way to everything else: where other tests take the processors, each of ten hashes
    /// may take ten seconds.
    private static let patience = 300

    /// Clients that guess passwords: they are verified one after the other, before any other client.
    private func guess(_ stage: WayStage) throws -> [WayStage.Started] {
        try (0..<6).map { try stage.start(.get, fields: [Self.field("alice", "guess \($0)")]) }
    }

    @Test(
        "a request whose password is verified during a reload is served",
        arguments: ReloadPutOffTests.Way.allCases
    )
    fileprivate func verified(way: ReloadPutOffTests.Way) throws {
        let stage = try stage()
        let guesses = try guess(stage)
        let started = try stage.start(way, fields: [Self.field("alice", "x")])
        try stage.settle()
        try stage.proxy.reload(stage.settings)
        for one in guesses { #expect(try one.outcome() == "407 authentication_required") }
        #expect(try started.outcome() == "200")
    }

    enum Change: String, CaseIterable {
        case removesUser, changesPassword, deniesHost, changesPins, endsAuthentication
    }

    @Test("a reload's changes apply to a request being verified", arguments: Change.allCases)
    func changed(change: Change) throws {
        let stage = try stage()
        let guesses = try guess(stage)
        let started = try [.post, .intercept, .upgrade, .http2].map {
            try stage.start($0, fields: [Self.field("alice", "x")])
        }
        try stage.settle()
        var settings = stage.settings
        var expected = "407 authentication_required"
        switch change {
        case .removesUser: settings.files["users"] = "bob:\(Self.slowHash)\n"
        case .changesPassword:
            settings.files["users"] = "alice:" + Self.slowHash.replacingOccurrences(of: "o.h9", with: "o.h8") + "\n"
        case .deniesHost:
            settings.members["access"] = ["denyHosts": [Stage.host]]
            expected = "403 host_denied"
        case .changesPins:
            settings.pin(Stage.host, to: .unrelated(2))
            expected = "502 pin_mismatch"
        case .endsAuthentication:
            settings.members["authentication"] = nil
            expected = "200"
        }
        try stage.proxy.reload(settings)
        for one in guesses { _ = try one.outcome() }
        for one in started { #expect(try one.outcome() == expected) }
        #expect(change == .endsAuthentication || stage.origin.applicationBytes == 0)
        // The mended twin.
        try stage.proxy.reload(stage.settings)
        #expect(try stage.start(.post, fields: [Self.field("alice", "x")]).outcome() == "200")
    }

    @Test("a wrong password is refused, whatever reloads happen meanwhile")
    func wrong() throws {
        let stage = try stage()
        let started = try stage.start(.get, fields: [Self.field("alice", "guess")])
        repeat { try stage.proxy.reload(stage.settings) } while stage.proxy.taskLines.isEmpty
        #expect(try started.outcome() == "407 authentication_required")
        #expect(stage.origin.applicationBytes == 0)
    }

    @Test("a verified password is not verified again after an irrelevant reload")
    func remembered() throws {
        let stage = try stage()
        let fields = [Self.field("alice", "x")]
        #expect(try stage.start(.get, fields: fields).outcome() == "200")
        try stage.proxy.reload(stage.settings)
        let guesses = try guess(stage)
        // It would have to wait for all of these.
        #expect(try stage.start(.get, fields: fields).outcome() == "200")
        #expect(stage.proxy.taskLines.filter { $0.string("error") != nil }.count < 6)
        for one in guesses { _ = try one.outcome() }
    }

    @Test("a user behind an intercepted CONNECT stays until a reload removes it")
    func intercepted() throws {
        let stage = try stage()
        let folder = try TemporaryFolder()
        let control = try TestSocket.listen()
        defer { close(control.descriptor) }
        let script = """
            import socket, ssl
            cues = socket.create_connection(("127.0.0.1", \(control.port)))
            s = socket.create_connection(("127.0.0.1", \(stage.proxy.port)))
            s.sendall(b"CONNECT \(Stage.host):443 HTTP/1.1\\r\\nHost: \(Stage.host):443\\r\\n\(Self.field("alice", "x"))\\r\\n\\r\\n")
            head = b""
            while b"\\r\\n\\r\\n" not in head: head += s.recv(1)
            context = ssl.create_default_context(cafile="\(stage.authority)")
            t = context.wrap_socket(s, server_hostname="\(Stage.host)")
            f = t.makefile("rwb")
            while cues.recv(1):
                f.write(b"GET /inside HTTP/1.1\\r\\nHost: \(Stage.host)\\r\\n\\r\\n")
                f.flush()
                cues.sendall(f.readline().split(b" ")[1])
                length = 0
                while True:
                    line = f.readline().strip()
                    if not line: break
                    if line.lower().startswith(b"content-length:"): length = int(line.split(b":")[1])
                f.read(length)
            """
        let path = try folder.write(script, as: "client.py")
        let client = try ChildProcess(try Programs.path(of: "python3"), [path])
        defer { client.signal(SIGKILL) }
        let cues = accept(control.descriptor, nil, nil)
        TestSocket.setTimeouts(cues, seconds: 30)
        defer { close(cues) }
        func ask() -> String {
            var response = [UInt8](repeating: UInt8(ascii: "."), count: 3)
            _ = send(cues, &response, 1, 0)
            let count = recv(cues, &response, 3, Int32(MSG_WAITALL))
            return String(decoding: response.prefix(max(0, count)), as: UTF8.self)
        }
        #expect(ask() == "200")
        var settings = stage.settings
        settings.pin(Stage.host, to: stage.server.pin, with: ["minTLSVersion": "1.3"])
        try stage.proxy.reload(settings)
        #expect(ask() == "200")
        settings.files["users"] = "bob:\(Self.slowHash)\n"
        try stage.proxy.reload(settings)
        #expect(ask() == "403")
    }

    @Test("a user removed while the CONNECT's origin is dialled is refused")
    func removedWhileDialling() throws {
        let silent = try TestSocket.listen()
        defer { close(silent.descriptor) }
        var stage = try WayStage(
            always: { settings in
                settings.files["users"] = "alice:\(Self.slowHash)\n"
                settings.members["authentication"] = ["basic": ["file": "users"]]
            },
            start: { $0.hosts[Stage.host]?["resolve"] = "127.0.0.1:\(silent.port)" }
        )
        stage.patience = Self.patience
        let started = try stage.start(.intercept, fields: [Self.field("alice", "x")])
        let dialled = accept(silent.descriptor, nil, nil)
        defer { close(dialled) }
        var settings = stage.settings
        settings.files["users"] = "bob:\(Self.slowHash)\n"
        try stage.proxy.reload(settings)
        #expect(try started.outcome() == "407 authentication_required")
    }
}
