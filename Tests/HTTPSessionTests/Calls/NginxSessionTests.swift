// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionCodable
import HTTPSessionImages
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("An HTTP session with nginx", .onOwnThreads)
struct NginxSessionTests {
    private static let server = try! TestPKI.shared.server("127.0.0.1")

    private struct Seen: Decodable, Equatable {
        let method: String
        let query: String
        let token: String
    }

    private static func origin(http2: Bool) throws -> NginxOrigin {
        let echo = #"{"method":"$request_method","query":"$args","token":"$http_authorization"}"#
        return try NginxOrigin(
            server,
            http2: http2,
            directives: [
                """
                location /v1/ { default_type application/json; return 200 '\(echo)'; }
                location /missing/ { default_type application/json; return 404 '{"why":"none"}'; }
                location /xml/ { default_type text/xml; return 200 '<list><item>1</item></list>'; }
                server_name api.example.com
                """
            ],
            files: ["here": [1, 2, 3]]
        )
    }

    private static func manager(_ origin: NginxOrigin, http2: Bool) throws -> HTTPSessionManager {
        var configuration = HTTPSessionManager.Configuration()
        if http2 { configuration.httpVersion = .http2 }
        var trust = SessionTrust(anchors: TestPKI.shared.anchors)
        trust.policies[try Host("127.0.0.1")] = try .pinning(server.pin)
        return try HTTPSessionManager(
            baseURL: "https://127.0.0.1:\(origin.port)/v1",
            configuration: configuration,
            serverTrust: trust,
            interceptor: RetryPolicy(exponentialBackoffScale: .milliseconds(1))
        )
    }

    @Test("methods, parameters, credentials and objects", arguments: [false, true])
    func methods(http2: Bool) async throws {
        let origin = try Self.origin(http2: http2)
        let manager = try Self.manager(origin, http2: http2)
        try manager.requestSerializer.setAuthorizationHeaderField(bearerToken: "abc")
        let serializer = DecodableResponseSerializer(Seen.self)
        let get = try await manager.get("items", parameters: ["q": "a b", "l": [1, 2]], serializer: serializer)
        #expect(get.value == Seen(method: "GET", query: "l%5B%5D=1&l%5B%5D=2&q=a%20b", token: "Bearer abc"))
        #expect(get.response.response.majorVersion == (http2 ? 2 : 1))
        let delete = try await manager.delete("items", parameters: ["a": 1], serializer: serializer)
        #expect(delete.value.method == "DELETE" && delete.value.query == "a=1")
        for method in [HTTPMethod.post, .put, .patch] {
            let request = try manager.request(method, "items", parameters: ["a": 1])
            let response = try await request.response(serializer: serializer)
            #expect(response.value == Seen(method: method.description, query: "", token: "Bearer abc"))
        }
        let head = try await manager.head("items")
        #expect(head.response.status == 200 && head.data.isEmpty)
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("each of many simultaneous requests gets its own response", arguments: [false, true])
    func many(http2: Bool) async throws {
        let origin = try Self.origin(http2: http2)
        let manager = try Self.manager(origin, http2: http2)
        let responses = try await withThrowingTaskGroup(of: (Int, String).self) { group in
            for number in 0..<100 {
                group.addTask {
                    let serializer = DecodableResponseSerializer(Seen.self)
                    let response = try await manager.get("x", parameters: ["n": number], serializer: serializer)
                    return (number, response.value.query)
                }
            }
            return try await group.reduce(into: [Int: String]()) { $0[$1.0] = $1.1 }
        }
        #expect(responses.count == 100)
        #expect(responses.allSatisfy { $0.value == "n=\($0.key)" })
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("a file and a form are put, and stand there byte for byte", arguments: [false, true])
    func uploads(http2: Bool) async throws {
        let origin = try Self.origin(http2: http2)
        let manager = try Self.manager(origin, http2: http2)
        let content = patternBytes(1 << 20)
        let source = try origin.folder.write(bytes: content, as: "source.bin")
        let request = try manager.multipartRequest(.put, "/files/form", parameters: ["name": "Ada"]) { form in
            try form.appendFile(source, name: "file")
        }
        let expected = try await request.originalRequest.body.collect()
        let response = try await request.response(serializer: HTTPResponseSerializer())
        #expect(response.response.response.status == 201)
        let stored = try Data(contentsOf: URL(fileURLWithPath: "\(origin.folder.path)/files/form"))
        let isWhole = Array(stored) == expected && expected.count > content.count
        #expect(isWhole)

        manager.requestSerializer = JSONRequestSerializer(writingOptions: .sortedKeys)
        _ = try await manager.put(
            "/files/x.json",
            parameters: ["b": [1, nil], "a": "ü"],
            serializer: HTTPResponseSerializer()
        )
        let read = try await manager.get(
            "/files/x.json",
            serializer: JSONResponseSerializer(validation: ResponseValidation())
        )
        #expect(read.value == ["a": "ü", "b": [1, nil]])
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("unacceptable statuses and types fail, and the first serializer that accepts decides")
    func failures() async throws {
        let origin = try Self.origin(http2: false)
        let manager = try Self.manager(origin, http2: false)
        let missing = await #expect(throws: RequestFailure.self) { try await manager.get("/missing/x") }
        #expect(missing?.response.map { String(decoding: $0.data, as: UTF8.self) } == #"{"why":"none"}"#)
        let notAllowed = await #expect(throws: RequestFailure.self) { try await manager.post("/files/here") }
        #expect(notAllowed?.response?.response.status == 405)
        let other = await #expect(throws: RequestFailure.self) { try await manager.get("/xml/x") }
        guard case .unacceptableContentType("text/xml", _) = other?.serializationError?.reason else {
            Issue.record("another failure: \(String(describing: other))")
            return
        }
        let compound = CompoundResponseSerializer<Int>([
            JSONResponseSerializer().map { $0["method"] == nil ? 0 : 1 },
            ImageResponseSerializer().map { $0?.width ?? 0 },
            StringResponseSerializer(validation: ResponseValidation(acceptableContentTypes: ["text/*"])).map {
                $0.utf8.count
            },
        ])
        #expect(try await manager.get("/xml/x", serializer: compound).value == 27)
        #expect(try await manager.get("x", serializer: compound).value == 1)
        await manager.invalidateSession(cancelingTasks: false)
    }
}
