// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Redirects of a session's tasks", .onOwnThreads)
struct RedirectTests {
    private typealias Stage = ManagerStage

    @Test("a redirect is followed; each hop is a transaction on the kept connection")
    func followed() async throws {
        let stage = try Stage(pinned: [Stage.host]) { request in
            switch request.target {
            case "/a/1": OriginResponse.redirect("2?x#part", body: "moved")
            case "/a/2?x": OriginResponse.redirect("https://API.example.com/3", status: "308 Permanent Redirect")
            default: OriginResponse.text(request.target)
            }
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/a/1")))
        let response = try await task.value()
        #expect(String(decoding: response.data, as: UTF8.self) == "/3")
        #expect(response.metrics.redirectCount == 2)
        let transactions = response.metrics.earlierTransactions + [response.metrics.transaction]
        #expect(transactions.map(\.status) == [302, 308, 200])
        #expect(transactions.map(\.isReusedConnection) == [false, true, true])
        let starts = transactions.map(\.fetchStart)
        #expect(starts == starts.sorted() && starts[0] >= 0)
        #expect(response.metrics.duration >= response.metrics.transaction.responseEnd)
        #expect(task.currentRequest.url == "https://api.example.com/3#part")
        #expect(task.originalRequest.url == Stage.url("/a/1"))
        #expect(task.countOfBytesReceived == 2)
        await stage.end()
    }

    @Test("a POST becomes a GET with 302, and is repeated whole with 307")
    func methods() async throws {
        let body = patternBytes(200_000)
        let stage = try Stage { request in
            switch request.target {
            case "/302": OriginResponse.redirect("/end")
            case "/307": OriginResponse.redirect("/end", status: "307 Temporary Redirect")
            default: OriginResponse.text("\(request.method) \(request.body.count) \(request["Content-Type"] ?? "-")")
            }
        }
        func post(_ path: String) async throws -> String {
            let request = HTTPSessionRequest(
                url: Stage.url(path),
                method: .post,
                headers: ["Content-Type": "text/x"],
                body: .bytes(body)
            )
            return String(decoding: try await stage.manager.dataTask(with: request).value().data, as: UTF8.self)
        }
        #expect(try await post("/302") == "GET 0 -")
        #expect(try await post("/307") == "POST 200000 text/x")
        await stage.end()
    }

    @Test(
        "spaces and UTF-8 in Location are refused, or escaped if the session says so",
        arguments: [
            ("/a b?c d#e", "/a%20b?c%20d"), ("/ä", "/%C3%A4"), ("é", "/%C3%A9"), ("/%20 ", "/%20"),
            ("/\u{1F600}", "/%F0%9F%98%80"),
            ("https://api.exa mple.com/", nil), ("https://äpi.example.com/", nil), ("/a\\ b", nil),
            ("https://us er@api.example.com/", nil), ("mailto:ä", nil),
        ] as [(String, String?)]
    )
    func unescaped(location: String, target: String?) async throws {
        for escapes in [false, true] {
            let stage = try Stage(pinned: [Stage.host], { $0.escapesLocation = escapes }) { request in
                request.target == "/" ? OriginResponse.redirect(location) : OriginResponse.text(request.target)
            }
            let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
            if let target, escapes || location == "/%20 " {
                #expect(String(decoding: try await task.value().data, as: UTF8.self) == target)
            } else {
                await #expect { try await task.value() } throws: { $0.sessionCode == .redirectDenied }
            }
            await stage.end()
        }
    }

    @Test("credentials do not cross origins")
    func credentials() async throws {
        let stage = try Stage { request in
            request.target == "/far"
                ? OriginResponse.redirect(Stage.url("/end", Stage.other))
                : request.target == "/near"
                    ? OriginResponse.redirect("/end")
                    : OriginResponse.text(
                        "\(request["Authorization"] ?? "-") \(request["Cookie"] ?? "-") \(request["X"]!)"
                    )
        }
        let headers: HTTPHeaders = ["Authorization": "Bearer t", "Cookie": "c=1", "X": "own"]
        let near = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/near"), headers: headers))
        #expect(String(decoding: try await near.value().data, as: UTF8.self) == "Bearer t c=1 own")
        let far = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/far"), headers: headers))
        #expect(String(decoding: try await far.value().data, as: UTF8.self) == "- - own")
        await stage.end()
    }

    @Test("only a hook leads from a pinned host to an unpinned one")
    func leavingPins() async throws {
        let stage = try Stage(pinned: [Stage.host]) { request in
            request.target == "/end"
                ? OriginResponse.text("there") : OriginResponse.redirect(Stage.url("/end", Stage.other))
        }
        let request = HTTPSessionRequest(url: Stage.url("/"))
        let denied = try stage.manager.dataTask(with: request)
        await #expect { try await denied.value() } throws: { $0.sessionCode == .redirectDenied }
        #expect(denied.error?.details.contains("held to no pins") == true)
        // A hook that only looks changes nothing.
        stage.manager.taskWillPerformHTTPRedirection = { [stage] _, response, redirect in
            stage.note("\(response.status) \(redirect.request.url) \(redirect.denial == .leavesPins)")
            return .proceed
        }
        let watched = try stage.manager.dataTask(with: request)
        await #expect { try await watched.value() } throws: { $0.sessionCode == .redirectDenied }
        #expect(stage.log.with { $0 } == ["302 \(Stage.url("/end", Stage.other)) true"])
        #expect(stage.origin.requests.count == 2)
        let allowed = try stage.manager.dataTask(with: request)
        allowed.delegate.taskWillPerformHTTPRedirection = { _, _, redirect in .follow(redirect.request) }
        let response = try await allowed.value()
        #expect(response.data == Array("there".utf8))
        #expect(response.metrics.transaction.connection?.evaluation?.verdict == .notPinned)
        #expect(response.metrics.earlierTransactions[0].connection?.evaluation?.verdict == .pass)
        await stage.end()
    }

    @Test(
        "pins that are report-only or have lapsed do not make a pinned host",
        arguments: [(false, .deny, 2098), (true, .unpinned, 2020), (true, .deny, 2098)]
            as [(Bool, SecurityPolicy.Configuration.OnExpiration, Int)]
    )
    func lapsedPins(enforces: Bool, onExpiration: SecurityPolicy.Configuration.OnExpiration, year: Int) async throws {
        var settings = SecurityPolicy.Configuration()
        settings.pinningMode = .publicKey
        settings.pins = [Pin(Stage.server.pin), Pin(.unrelated(2))]
        settings.enforcePinning = enforces
        settings.onExpiration = onExpiration
        settings.expiration = CalendarDate(year: year, month: 1, day: 31)
        let stage = try Stage(pinned: [Stage.host], policies: [Stage.other: try SecurityPolicy(settings)]) { request in
            request.target == "/end"
                ? OriginResponse.text("there") : OriginResponse.redirect(Stage.url("/end", Stage.other))
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        if enforces, onExpiration == .deny {
            #expect(try await task.value().data == Array("there".utf8))
        } else {
            await #expect { try await task.value() } throws: { $0.sessionCode == .redirectDenied }
            #expect(stage.origin.requests.count == 1)
        }
        await stage.end()
    }

    @Test("a hop to a host with a wrong key sends it nothing")
    func wrongKeyBehindRedirect() async throws {
        let impostor = try ScriptedOrigin(try TestPKI.shared.server(Stage.other)) { $0.readToEnd() }
        let stage = try Stage(pinned: [Stage.host, Stage.other]) {
            $0.resolve[try! Host(Stage.other)] = (host: try! Host("127.0.0.1"), port: impostor.port)
        } responding: { _ in
            OriginResponse.redirect(Stage.url("/end", Stage.other))
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        await #expect { try await task.value() } throws: { $0.sessionCode == .pinMismatch }
        await stage.end()
        try await eventually("the end") { impostor.connections.allSatisfy(\.isClosed) }
        #expect(impostor.connections.count == 1 && impostor.applicationBytes == 0)
    }

    @Test("only a hook leads away from TLS, never to a host with a policy")
    func losingTLS() async throws {
        let plain = try ScriptedOrigin(nil) { _ in OriginResponse.text("plain") }
        let stage = try Stage(pinned: [Stage.other], plain: plain) { request in
            OriginResponse.redirect(
                request.target == "/pinned" ? "http://\(Stage.other)/" : "http://plain.example.com/"
            )
        }
        let denied = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        await #expect { try await denied.value() } throws: { $0.sessionCode == .redirectDenied }
        #expect(plain.connections.isEmpty)
        stage.manager.taskWillPerformHTTPRedirection = { _, _, redirect in .follow(redirect.request) }
        let allowed = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        #expect(try await allowed.value().data == Array("plain".utf8))
        let pinned = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/pinned")))
        await #expect { try await pinned.value() } throws: { $0.sessionCode == .requestInvalid }
        await stage.end()
    }

    @Test("a hook stops at the redirect, which is then the response, or leads elsewhere")
    func decisions() async throws {
        let stage = try Stage { request in
            request.target == "/else" ? OriginResponse.text("else") : OriginResponse.redirect("/next", body: "moved")
        }
        stage.manager.taskWillPerformHTTPRedirection = { _, _, _ in .stop }
        let stopped = try await stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/"))).value()
        #expect(stopped.response.status == 302)
        #expect(stopped.data == Array("moved".utf8))
        stage.manager.taskWillPerformHTTPRedirection = { _, _, redirect in
            var request = redirect.request
            request.url = Stage.url("/else")
            return .follow(request)
        }
        let led = try await stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/"))).value()
        #expect(led.data == Array("else".utf8))
        await stage.end()
    }

    @Test("twenty hops are followed, and the next is too many")
    func circle() async throws {
        let stage = try Stage { _ in OriginResponse.redirect("/again") }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        await #expect { try await task.value() } throws: { $0.sessionCode == .redirectDenied }
        #expect(stage.origin.requests.count == 21)
        #expect(task.delegate.metrics?.redirectCount == 20)
        #expect(task.delegate.metrics?.earlierTransactions.count == 20)
        await stage.end()
    }

    @Test("the body of a redirect is dropped; a long one is cut off")
    func longBody() async throws {
        let stage = try Stage { connection in
            while let request = try connection.readRequest() {
                if request.target == "/end" {
                    try connection.respond("end")
                } else {
                    try connection.write("HTTP/1.1 302 Found\r\nLocation: /end\r\nTransfer-Encoding: chunked\r\n\r\n")
                    let chunk = "1000\r\n" + String(repeating: "x", count: 4096) + "\r\n"
                    for _ in 0..<500 { try connection.write(chunk) }
                }
            }
        }
        let response = try await stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/"))).value()
        #expect(response.data == Array("end".utf8))
        #expect(stage.origin.connections.count == 2)
        await stage.end()
    }

    @Test("a task that is cancelled between two hops ends there")
    func cancelledBetween() async throws {
        let stage = try Stage { _ in OriginResponse.redirect("/next", body: "moved") }
        stage.manager.taskWillPerformHTTPRedirection = { task, _, _ in
            task.cancel()
            return .proceed
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        await #expect { try await task.value() } throws: { $0.sessionCode == .cancelled }
        await stage.end()
    }
}
