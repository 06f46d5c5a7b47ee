// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@Suite("The server's side of TLS")
struct TLSServerTests {
    private let pki: TestPKI
    private let identity: ServerIdentity

    init() throws {
        pki = try TestPKI()
        let server = try pki.server("proxy.example.com")
        identity = ServerIdentity(server.identity, intermediates: [pki.intermediate.certificate])
    }

    private func context(_ change: (inout TLSServerContext.Settings) -> Void = { _ in }) throws -> TLSServerContext {
        var settings = TLSServerContext.Settings()
        change(&settings)
        return try TLSServerContext(identity, settings)
    }

    private func read(_ session: TLSServerSession) -> (String, TLSServerSession.Progress) {
        var buffer = ByteBuffer()
        while true {
            let progress = session.read(into: &buffer, upTo: 16 << 10)
            guard case .bytes = progress else { return (String(copying: buffer.bytes), progress) }
        }
    }

    // MARK: - Bytes

    @Test("bytes go both ways, and the chain leads to the root")
    func exchangesBytes() throws {
        let options = MemoryTLSClient.Options(host: "proxy.example.com", anchors: pki.root.certificate)
        let client = try MemoryTLSClient(try context(), options)
        #expect(client.shakeHands() == .bytes(0))
        #expect(client.isConnected)
        #expect(client.server.serverName == "proxy.example.com")
        #expect(client.server.version == "TLSv1.3")
        client.send("GET / HTTP/1.1\r\n\r\n")
        #expect(read(client.server) == ("GET / HTTP/1.1\r\n\r\n", .needsInput))
        var response = ByteBuffer()
        response.append("HTTP/1.1 200 OK\r\n\r\n")
        #expect(client.server.write(from: &response, upTo: 1 << 20) == .bytes(19))
        let left = response.count
        #expect(left == 0)
        #expect(String(decoding: client.received(), as: UTF8.self) == "HTTP/1.1 200 OK\r\n\r\n")
    }

    /// What a client may send behind the handshake, besides its data.
    enum Message: CaseIterable {
        /// KeyUpdate of TLS 1.3.
        case keys
        /// The same, to which the server answers with its own.
        case askedKeys

        func send(by client: MemoryTLSClient) {
            SSL_key_update(client.pointer, self == .keys ? SSL_KEY_UPDATE_NOT_REQUESTED : SSL_KEY_UPDATE_REQUESTED)
            SSL_do_handshake(client.pointer)
            client.carryToServer()
        }
    }

    @Test(
        "a few TLS messages are accepted, and an endless client is disconnected",
        arguments: Message.allCases
    )
    func messagesWithoutEnd(message: Message) throws {
        let client = try MemoryTLSClient(try context())
        client.shakeHands()
        for _ in 0..<40 { message.send(by: client) }
        client.send("data")
        #expect(read(client.server) == ("data", .needsInput))
        for _ in 0..<1000 { message.send(by: client) }
        client.send("more")
        let (text, progress) = read(client.server)
        #expect(text == "")
        if case .failed = progress {} else { Issue.record("\(progress)") }
        // What it answers is bounded, too.
        let responded = client.server.outgoing.count
        #expect(responded < 20_000)
        client.send("more")
        #expect(read(client.server).0 == "")
    }

    @Test("a handshake may come byte by byte")
    func takesSingleBytes() throws {
        let client = try MemoryTLSClient(try context())
        SSL_do_handshake(client.pointer)
        let whole = client.takenFromClient()
        for byte in whole {
            client.server.incoming.append(byte)
            #expect(client.server.handshake() == .needsInput)
        }
        let waiting = client.server.outgoing.count
        #expect(waiting > 0)
        client.shakeHands()
        #expect(client.server.isEstablished)
    }

    @Test("no more is encrypted than the limit of what waits allows")
    func holdsBack() throws {
        let client = try MemoryTLSClient(try context())
        client.shakeHands()
        var large = ByteBuffer()
        large.append([UInt8](repeating: 7, count: 1 << 20))
        guard case .bytes(let first) = client.server.write(from: &large, upTo: 64 << 10) else {
            Issue.record("nothing was written")
            return
        }
        // The record that reaches the limit is the last.
        #expect(first >= 48 << 10 && first <= 80 << 10)
        let left = large.count
        #expect(left == (1 << 20) - first)
        var total = client.received().count
        while !large.isEmpty {
            _ = client.server.write(from: &large, upTo: 64 << 10)
            total += client.received().count
        }
        #expect(total == 1 << 20)
    }

    @Test("a piece of a body is encrypted where it stands")
    func encryptsSpans() throws {
        let client = try MemoryTLSClient(try context())
        client.shakeHands()
        let piece = [UInt8](repeating: 9, count: 40_000)
        #expect(client.server.write(piece.span, upTo: 1 << 20) == .bytes(40_000))
        #expect(client.received() == piece)
    }

    // MARK: - The end

    @Test("a client's close_notify is an end, its absence a truncation")
    func tellsEndFromCut() throws {
        let client = try MemoryTLSClient(try context())
        client.shakeHands()
        client.send("whole")
        SSL_shutdown(client.pointer)
        client.carryToServer()
        #expect(read(client.server) == ("whole", .closed))

        let cut = try MemoryTLSClient(try context())
        cut.shakeHands()
        cut.send("half")
        cut.server.incomingHasEnded = true
        #expect(read(cut.server) == ("half", .truncated))
    }

    @Test("our close_notify tells the client of a clean end")
    func saysTheEnd() throws {
        let client = try MemoryTLSClient(try context())
        client.shakeHands()
        var last = ByteBuffer()
        last.append("last")
        _ = client.server.write(from: &last, upTo: 1 << 20)
        client.server.sendCloseNotify()
        #expect(String(decoding: client.received(), as: UTF8.self) == "last")
        #expect(SSL_get_shutdown(client.pointer) & SSL_RECEIVED_SHUTDOWN != 0)
    }

    @Test("an HTTP request without TLS is a fault, not a request")
    func refusesPlaintext() throws {
        let session = try context().session()
        session.incoming.append("GET http://example.com/ HTTP/1.1\r\n\r\n")
        guard case .failed(let error) = session.handshake() else {
            Issue.record("it went on")
            return
        }
        #expect(error.description.contains("http request"))
        #expect(OpenSSLError(draining: "").entries.isEmpty)
    }

    @Test("a record that was tampered with ends the session")
    func refusesTampering() throws {
        let client = try MemoryTLSClient(try context())
        client.shakeHands()
        SSL_write(client.pointer, "hello", 5)
        var record = client.takenFromClient()
        record[record.count - 1] ^= 1
        client.server.incoming.append(record)
        guard case .failed(let error) = read(client.server).1 else {
            Issue.record("it was taken")
            return
        }
        #expect(error.description.contains("bad record mac"))
        #expect(client.alert().contains("bad record mac"))
    }

    // MARK: - What is spoken

    @Test("TLS 1.2 is spoken with forward secrecy and authenticated encryption alone")
    func restrictsCiphers() throws {
        let old = try MemoryTLSClient(try context(), .init(greatestVersion: TLS1_2_VERSION))
        #expect(old.shakeHands() == .bytes(0))
        #expect(old.server.version == "TLSv1.2")
        for ciphers in ["AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES256-SHA"] {
            let weak = try MemoryTLSClient(try context(), .init(greatestVersion: TLS1_2_VERSION, ciphers: ciphers))
            guard case .failed = weak.shakeHands() else {
                Issue.record("\(ciphers) was taken")
                continue
            }
        }
        let older = try MemoryTLSClient(try context(), .init(greatestVersion: TLS1_1_VERSION))
        guard case .failed = older.shakeHands() else {
            Issue.record("TLS 1.1 was taken")
            return
        }
        #expect(older.alert().contains("protocol version"))
    }

    @Test(
        "a client with finite-field groups alone is refused",
        arguments: [TLS1_2_VERSION, TLS1_3_VERSION]
    )
    func restrictsGroups(version: Int32) throws {
        // In TLS 1.2 the curve of the server's key has to be among them.
        for (groups, isAccepted) in [("ffdhe8192", false), ("ffdhe2048:X25519:P-256", true), ("P-521:P-256", true)] {
            let client = try MemoryTLSClient(
                try context(),
                MemoryTLSClient.Options(greatestVersion: version, groups: groups)
            )
            #expect((client.shakeHands() == .bytes(0)) == isAccepted, "\(groups)")
        }
    }

    @Test("a client's certificates are refused before they are decoded", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func refusesCertificates(version: Int32) throws {
        let authority = try TestPKI("clients").root
        let identity = try CertificateBuilder.server(hosts: ["client"], validity: TestPKI.validity)
            .identity(issuer: authority)
        for count in [15, 16] {
            var options = MemoryTLSClient.Options(identity: identity, greatestVersion: version)
            options.intermediates = Array(repeating: authority.certificate, count: count)
            let client = try MemoryTLSClient(
                try context {
                    $0.clientAuthorities = [authority.certificate]
                    $0.requiresClientCertificate = false
                },
                options
            )
            let progress = client.shakeHands()
            guard count > 15 else {
                if case .failed(let error) = progress { #expect(!error.description.contains("more than 16")) }
                continue
            }
            guard case .failed(let error) = progress else {
                Issue.record("\(progress)")
                continue
            }
            #expect(error.description.contains("more than 16 certificates"), "\(error)")
        }
    }

    @Test("no ticket is given, in neither version")
    func givesNoTickets() throws {
        for version in [TLS1_2_VERSION, TLS1_3_VERSION] {
            let client = try MemoryTLSClient(try context(), .init(greatestVersion: version))
            client.shakeHands()
            _ = client.received()
            #expect(SSL_SESSION_has_ticket(SSL_get_session(client.pointer)) == 0)
            #expect(SSL_SESSION_is_resumable(SSL_get_session(client.pointer)) == 0)
        }
    }

    @Test("a client cannot negotiate anew")
    func refusesRenegotiation() throws {
        let client = try MemoryTLSClient(try context(), .init(greatestVersion: TLS1_2_VERSION))
        client.shakeHands()
        SSL_renegotiate(client.pointer)
        SSL_do_handshake(client.pointer)
        client.carryToServer()
        _ = read(client.server)
        #expect(client.alert().contains("no renegotiation"))
    }

    @Test("a supported one of the client's protocols is chosen")
    func choosesProtocol() throws {
        let both = try MemoryTLSClient(try context(), .init(protocols: ["h2", "http/1.1"]))
        both.shakeHands()
        #expect(both.server.applicationProtocol == "http/1.1")
        let none = try MemoryTLSClient(try context())
        #expect(none.shakeHands() == .bytes(0))
        #expect(none.server.applicationProtocol == "")
        let best = try context { $0.applicationProtocols = ["h2", "http/1.1"] }
        let preferred = try MemoryTLSClient(best, .init(protocols: ["http/1.1", "h2"]))
        preferred.shakeHands()
        #expect(preferred.server.applicationProtocol == "h2")
    }

    @Test("a client with unknown protocols is told so")
    func refusesOtherProtocols() throws {
        let client = try MemoryTLSClient(try context(), .init(protocols: ["h2"]))
        guard case .failed = client.shakeHands() else {
            Issue.record("it was taken")
            return
        }
        #expect(client.alert().contains("no application protocol"))
    }

    // MARK: - Names

    @Test("a server for one host refuses a client that names another")
    func checksServerName() throws {
        let host = try Host("proxy.example.com")
        let right = try MemoryTLSClient(try context { $0.host = host }, .init(host: "Proxy.Example.COM"))
        #expect(right.shakeHands() == .bytes(0))
        let silent = try MemoryTLSClient(try context { $0.host = host })
        #expect(silent.shakeHands() == .bytes(0))
        let wrong = try MemoryTLSClient(try context { $0.host = host }, .init(host: "other.example.com"))
        guard case .failed = wrong.shakeHands() else {
            Issue.record("it was taken")
            return
        }
        #expect(wrong.alert().contains("unrecognized name"))
        let any = try MemoryTLSClient(try context(), .init(host: "other.example.com"))
        #expect(any.shakeHands() == .bytes(0))
    }

    // MARK: - Client certificates

    @Test("a client certificate is asked for, verified, and known")
    func verifiesClients() throws {
        let context = try context { $0.clientAuthorities = [pki.root.certificate, pki.intermediate.certificate] }
        for version in [TLS1_2_VERSION, TLS1_3_VERSION] {
            let identity = try client(named: "build agent", usage: "clientAuth", issuer: pki.intermediate)
            let known = try MemoryTLSClient(context, .init(identity: identity, greatestVersion: version))
            #expect(known.shakeHands() == .bytes(0))
            #expect(known.server.clientCertificate?.subject == "CN = build agent")

            let none = try MemoryTLSClient(context, .init(greatestVersion: version))
            guard case .failed = none.shakeHands() else {
                Issue.record("no certificate was taken")
                continue
            }
            #expect(none.server.clientCertificate == nil)

            let stranger = try client(named: "stranger", usage: "clientAuth", issuer: try TestPKI("other").root)
            let unknown = try MemoryTLSClient(context, .init(identity: stranger, greatestVersion: version))
            guard case .failed = unknown.shakeHands() else {
                Issue.record("a stranger's was taken")
                continue
            }
            #expect(unknown.alert().contains("unknown ca"))
        }
    }

    @Test("a server's certificate is no client's")
    func checksClientPurpose() throws {
        let context = try context { $0.clientAuthorities = [pki.intermediate.certificate] }
        let server = try client(named: "server", usage: "serverAuth", issuer: pki.intermediate)
        guard case .failed = try MemoryTLSClient(context, .init(identity: server)).shakeHands() else {
            Issue.record("it was taken")
            return
        }
    }

    @Test("without client authorities no certificate is requested")
    func asksNobody() throws {
        let identity = try client(named: "build agent", usage: "clientAuth", issuer: pki.intermediate)
        let client = try MemoryTLSClient(try context(), .init(identity: identity))
        #expect(client.shakeHands() == .bytes(0))
        #expect(client.server.clientCertificate == nil)
    }

    private func client(named name: String, usage: String, issuer: Identity) throws -> Identity {
        var builder = CertificateBuilder.server(hosts: [name], validity: TestPKI.validity)
        builder.names = []
        builder.extendedKeyUsage = [usage]
        return try builder.identity(issuer: issuer)
    }

    // MARK: - Within another session

    @Test("TLS runs inside TLS")
    func nests() throws {
        let outer = try MemoryTLSClient(try context())
        outer.shakeHands()
        let inner = try MemoryTLSClient(try context())
        for _ in 0..<10 {
            SSL_do_handshake(inner.pointer)
            outer.send(inner.takenFromClient())
            while case .bytes = outer.server.read(into: &inner.server.incoming, upTo: 16 << 10) {}
            _ = inner.server.handshake()
            _ = outer.server.write(from: &inner.server.outgoing, upTo: 1 << 20)
            inner.give(outer.received())
        }
        #expect(inner.isConnected && inner.server.isEstablished)
    }
}
