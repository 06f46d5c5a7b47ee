// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession
import HTTPSessionStubs
import SessionCore
import TestSupport
import Testing

@Suite("Headers of requests", .onOwnThreads)
struct HTTPHeadersTests {
    @Test("names match in any case, keep their order, and may repeat")
    func access() {
        var headers: HTTPHeaders = ["Accept": "a", "X-Own": "1", "accept": "b"]
        #expect(headers["ACCEPT"] == "a" && headers.values(for: "accept") == ["a", "b"] && headers["None"] == nil)
        #expect(headers.map(\.name) == ["Accept", "X-Own", "accept"] && headers.count == 3)
        headers["aCCept"] = "c"
        #expect(headers.map { "\($0.name): \($0.value)" } == ["aCCept: c", "X-Own: 1"])
        headers["New"] = "2"
        headers["x-own"] = nil
        #expect(headers.description == "aCCept: c\nNew: 2" && headers.contains(name: "NEW"))
        headers.append(name: "new", value: "3")
        headers.appendMissing(of: ["NEW": "4", "Other": "5"])
        #expect(headers.map(\.value) == ["c", "2", "3", "5"])
        headers.remove(name: "new")
        #expect(headers == ["ACCEPT": "c", "other": "5"] && headers != ["other": "5", "ACCEPT": "c"])
        #expect(HTTPHeaders(["b": "2", "a": "1"]) == ["a": "1", "b": "2"] && HTTPHeaders().isEmpty)
    }

    @Test(
        "an invalid name or value is kept, and refused when a request is made",
        arguments: [("A\r\nB", "c"), ("X-Line", "a\nb"), ("", "a"), ("X Y", "a"), ("X-Nul", "a\0"), ("X-Blank", " a")]
    )
    func invalid(name: String, value: String) async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "*", response: .text("x"))
        var headers: HTTPHeaders = [name: value]
        headers["X-Good"] = "1"
        #expect(headers[name] == value && headers.count == 2)
        func isNamed(_ error: any Error) -> Bool {
            let error = (error as? RequestFailure)?.sessionError ?? error as? SessionError
            let shown = name.contains { $0 == " " || $0 == "\r\n" } || name.isEmpty ? "field name" : name
            return error?.code == .requestInvalid && error?.details.contains(shown) == true
        }
        #expect { try headers.validate() } throws: { isNamed($0) }
        await #expect { try await stage.manager.get("/", headers: headers, serializer: .string) } throws: {
            isNamed($0)
        }
        #expect { try stage.manager.get("/", headers: headers) { _ in } } throws: { isNamed($0) }
        #expect { try stage.manager.download(.get, "/", headers: headers) } throws: { isNamed($0) }
        await #expect { try await stage.manager.stream(.get, "/", headers: headers) } throws: { isNamed($0) }
        let request = HTTPSessionRequest(url: StubStage.base, headers: headers)
        #expect { try stage.manager.session.dataTask(with: request) } throws: { isNamed($0) }
        // An adapter's, a redirect's and a serializer's come later.
        let adapter = Adapter { request, _ in
            var request = request
            request.headers[name] = value
            return request
        }
        let options = RequestOptions(interceptor: adapter)
        await #expect { try await stage.manager.get("/", options: options, serializer: .string) } throws: {
            isNamed($0)
        }
        stage.manager.requestSerializer.settings.headers[name] = value
        await #expect { try await stage.manager.get("/", serializer: .string) } throws: { isNamed($0) }
        #expect(stage.origin.requests.isEmpty)
        await stage.end()
    }

    @Test("invalid fields of a redirect hook or a configuration are refused")
    func later() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "/old", response: .redirect(to: "/new"))
        try stage.origin.route(nil, "/new", response: .text("x"))
        stage.manager.session.taskWillPerformHTTPRedirection = { _, _, proposal in
            var request = proposal.request
            request.headers["X-Line"] = "a\r\nInjected: b"
            return .follow(request)
        }
        await #expect { try await stage.manager.data(for: StubStage.base + "/old") } throws: {
            $0.sessionCode == .requestInvalid
        }
        #expect(stage.origin.requests.map(\.path) == ["/old"])
        await stage.end()
        let other = try StubStage { $0.additionalHeaders["X-Line"] = "a\nb" }
        await #expect { try await other.manager.data(for: StubStage.base) } throws: {
            $0.sessionCode == .requestInvalid
        }
        await other.end()
    }

    @Test("fields of responses are read by name, and one after the other")
    func responses() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "*", response: .text("x").adding("X-Own", "1").adding("x-own", "2"))
        let fields = try await stage.manager.data(for: StubStage.base).response.fields
        #expect(fields["X-OWN"] == "1" && fields["None"] == nil)
        #expect(fields.filter { $0.name.lowercased() == "x-own" }.map(\.value) == ["1", "2"])
        await stage.end()
    }
}
