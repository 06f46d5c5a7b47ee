// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import TestSupport
import Testing

/// Python's gRPC on both sides: a client in the clear at a gateway, a server over TLS behind it.
@Suite("gRPC", .onOwnThreads)
struct GRPCTests {
    private static let serverText = """
        import sys, grpc, time
        from concurrent import futures

        def unary(request, context):
            if request == b"fail":
                context.set_trailing_metadata((("why", "asked"),))
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "as asked")
            if request == b"slow":
                time.sleep(5)
            sent = dict(context.invocation_metadata())
            context.set_trailing_metadata((("seen", sent.get("probe", "")),))
            return b"re:" + request

        def server_stream(request, context):
            for number in range(int(request)):
                yield b"%d" % number

        def client_stream(requests, context):
            return b"+".join(requests)

        def both(requests, context):
            for request in requests:
                yield b"re:" + request

        handlers = grpc.method_handlers_generic_handler("test.Echo", {
            "Unary": grpc.unary_unary_rpc_method_handler(unary),
            "ServerStream": grpc.unary_stream_rpc_method_handler(server_stream),
            "ClientStream": grpc.stream_unary_rpc_method_handler(client_stream),
            "Both": grpc.stream_stream_rpc_method_handler(both),
        })
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
        server.add_generic_rpc_handlers((handlers,))
        certificate, key = (open(path, "rb").read() for path in sys.argv[1:3])
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
        server.start()
        print(port, flush=True)
        sys.stdin.read()
        server.stop(None)
        """

    private static let clientText = """
        import sys, grpc, queue
        if sys.argv[3:]:
            channel = grpc.secure_channel(sys.argv[1], grpc.ssl_channel_credentials(open(sys.argv[3], "rb").read()))
        else:
            channel = grpc.insecure_channel(sys.argv[1])
        unary = channel.unary_unary("/test.Echo/Unary")
        server_stream = channel.unary_stream("/test.Echo/ServerStream")
        client_stream = channel.stream_unary("/test.Echo/ClientStream")
        both = channel.stream_stream("/test.Echo/Both")

        def refused(call):
            try:
                return call()
            except grpc.RpcError as error:
                return error

        if sys.argv[2] == "unary":
            print(unary(b"hello", timeout=20).decode())
            error = refused(lambda: client_stream(iter([b"a"]), timeout=20))
            print(error if isinstance(error, bytes) else error.code().name)
            sys.exit()
        if sys.argv[2] == "refused":
            print(refused(lambda: unary(b"hello", timeout=20)).code().name)
            sys.exit()
        answer, call = unary.with_call(b"hello", metadata=(("probe", "p1"),), timeout=20)
        print("unary", answer.decode(), dict(call.trailing_metadata())["seen"])
        large = b"x" * 3000000
        print("large", unary(large, timeout=20) == b"re:" + large)
        print("server", len(list(server_stream(b"500", timeout=20))))
        print("client", client_stream(iter([b"a", b"b", b"c"]), timeout=20).decode())
        # Each answer comes before the next word is sent.
        words = queue.Queue()
        answers = both(iter(words.get, None), timeout=20)
        heard = []
        for word in [b"one", b"two", b"three"]:
            words.put(word)
            heard.append(next(answers).decode())
        words.put(None)
        print("both", ",".join(heard), len(list(answers)))
        error = refused(lambda: unary(b"fail", timeout=20))
        print("status", error.code().name, error.details(), dict(error.trailing_metadata())["why"])
        print("deadline", refused(lambda: unary(b"slow", timeout=0.3)).code().name)
        # A call that is cancelled at once may never leave the client.
        words.put(b"one")
        call = both(iter(words.get, None), timeout=20)
        next(call)
        call.cancel()
        words.put(None)
        print("cancelled", call.cancelled())
        print("after", unary(b"still", timeout=20).decode())
        """

    private struct Served {
        let folder: TemporaryFolder
        let process: ChildProcess
        let port: UInt16
        let server: TestServer
    }

    private func serve() throws -> Served {
        let folder = try TemporaryFolder()
        let server = try Stage.pki.server(Stage.host)
        let files = try server.write(to: folder, name: "server")
        let script = try folder.write(Self.serverText, as: "server.py")
        // Debian's own, which has python3-grpcio.
        let process = try ChildProcess("/usr/bin/python3", [script, files.certificate, files.key])
        let port = try process.waitForOutput("the gRPC server's port") { text in
            text.hasSuffix("\\n") ? UInt16(text.dropLast()) : text.split(separator: "\n").first.flatMap { UInt16($0) }
        }
        return Served(folder: folder, process: process, port: port, server: server)
    }

    private func proxy(_ served: Served, _ change: (inout ProxySettings) -> Void = { _ in }) throws -> ProxyUnderTest {
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, served.server, at: served.port)
        settings.hosts[Stage.host]?["httpVersion"] = "2"
        HTTP2ClientTests.takeHTTP2(&settings)
        change(&settings)
        return try ProxyUnderTest(settings)
    }

    private func call(_ proxy: ProxyUnderTest, _ served: Served, _ what: String) throws -> Programs.Finished {
        let script = try served.folder.write(Self.clientText, as: "client.py")
        return try Programs.run("/usr/bin/python3", [script, "127.0.0.1:\(proxy.port(of: 1))", what])
    }

    /// What the client prints when all calls went as they have to.
    private static let expected = [
        "unary re:hello p1", "large True", "server 500", "client a+b+c", "both re:one,re:two,re:three 0",
        "status FAILED_PRECONDITION as asked asked", "deadline DEADLINE_EXCEEDED", "cancelled True", "after re:still",
    ]

    @Test("calls of every kind reach a pinned server through a gateway")
    func calls() throws {
        let served = try serve()
        let proxy = try proxy(served)
        let finished = try call(proxy, served, "all")
        #expect(
            finished.output.split(separator: "\n").map(String.init) == Self.expected,
            "\(finished.errors)"
        )
        let lines = try proxy.waitForTaskLines(8)
        let unary = lines.first { $0.string("url")?.hasSuffix("/test.Echo/Unary") == true }
        #expect(unary?.transactions.first?["networkProtocolName"] as? String == "h2")
        #expect((unary?["pinning"] as? [String: Any])?["verdict"] as? String == "pass")
        try Patience.poll(for: "the cancelled call in the log") {
            proxy.taskLines.contains { $0.string("error") == "client_closed" } ? true : nil
        }
        #expect(try proxy.terminate().exitCode == 0)
    }

    @Test(
        "calls pass an intercepted CONNECT, over TLS and in the clear",
        arguments: [443, 80]
    )
    func intercepted(port: Int) throws {
        let served = try serve()
        let made = try Programs.run(
            try Programs.built("pinproxy"),
            ["ca", "init", "--dir", served.folder.path, Stage.host]
        )
        try #require(made.exitCode == 0, "\(made.errors)")
        let authority = "\(served.folder.path)/pinproxy-ca.pem"
        let proxy = try proxy(served) { settings in
            settings.members["interception"] = [
                "certificate": authority, "key": "\(served.folder.path)/pinproxy-ca.key",
            ]
            settings.hosts[Stage.host]?["connect"] = "intercept"
        }
        let script = try served.folder.write(Self.clientText, as: "client.py")
        let finished = try Programs.run(
            "/usr/bin/python3",
            [script, "\(Stage.host):\(port)", "all"] + (port == 443 ? [authority] : []),
            environment: Programs.environment.merging(["http_proxy": "http://127.0.0.1:\(proxy.port)"]) { $1 }
        )
        #expect(
            finished.output.split(separator: "\n").map(String.init) == Self.expected,
            "\(finished.errors) \(proxy.output)"
        )
        #expect(try proxy.terminate().exitCode == 0)
        let calls = proxy.taskLines.filter { $0.string("url")?.contains("/test.Echo/") == true }
        #expect(calls.count >= 8)
        // A call that was cancelled may have had no connection yet.
        let completed = calls.filter { $0.string("error") == nil }
        #expect(completed.allSatisfy { $0.object("pinning")?["verdict"] as? String == "pass" })
    }

    @Test("under a rule for one call the others are refused")
    func rules() throws {
        let served = try serve()
        let rule = ["id": "unary", "host": Stage.host, "method": "POST", "path": "/test.Echo/Unary", "then": "allow"]
        let proxy = try proxy(served) { $0.members["requests"] = ["rules": [rule]] }
        let finished = try call(proxy, served, "unary")
        // A 403 without a gRPC status is PERMISSION_DENIED (gRPC's http-grpc-status-mapping).
        #expect(finished.output == "re:hello\nPERMISSION_DENIED\n", "\(finished.errors)")
        let lines = try proxy.waitForTaskLines(2)
        #expect(lines.map { $0.string("rule") } == ["unary", nil] && lines[1].string("error") == "request_denied")
    }

    @Test("with a wrong pin the client sees an error, the server nothing")
    func wrongPin() throws {
        let served = try serve()
        let proxy = try proxy(served) { $0.pin(Stage.host, to: PublicKeyPin.unrelated(9)) }
        let finished = try call(proxy, served, "refused")
        // A 502 without a gRPC status is UNAVAILABLE (gRPC's http-grpc-status-mapping).
        #expect(finished.output == "UNAVAILABLE\n", "\(finished.errors)")
        let line = try #require(try proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "pin_mismatch")
        #expect(line.transactions.first?["requestStart"] == nil)
    }
}
