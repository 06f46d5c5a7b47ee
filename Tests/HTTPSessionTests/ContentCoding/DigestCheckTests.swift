// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionStubs
import SessionCore
import TestSupport
import Testing

@testable import HTTPSessionCore

@Suite("Digests of bodies (RFC 9530)", .onOwnThreads)
struct DigestCheckTests {
    /// The content of the examples of RFC 9530, appendix B.
    private static let content = Array("{\"hello\": \"world\"}\n".utf8)
    private static let sha256 = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"
    private static let sha512 =
        "sha-512=:YMAam51Jz/jOATT6/zvHrLVgOYTGFy1d6GJiOHTohq4yP+pgk4vf2aCsyRZOtw8MjkM7iw7yZ/WkppmM44T3qg==:"
    private static let wrong = "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"

    private func code(
        _ response: StubResponse,
        _ check: DigestCheck = .ifPresent,
        method: HTTPMethod = .get
    ) async throws -> SessionError.Code? {
        let stage = try StubStage()
        try stage.origin.route(nil, "*", response: response)
        let request = try stage.manager.request(method, "x", options: RequestOptions(digestCheck: check))
        var code: SessionError.Code?
        do {
            _ = try await request.response(serializer: .data)
        } catch {
            code = error.sessionError?.code
        }
        await stage.end()
        return code
    }

    private func response(_ fields: (String, String)...) -> StubResponse {
        fields.reduce(.bytes(Self.content)) { $0.adding($1.0, $1.1) }
    }

    @Test("both fields and both algorithms are compared", arguments: ["Content-Digest", "Repr-Digest"])
    func compared(_ field: String) async throws {
        #expect(try await code(response((field, Self.sha256))) == nil)
        #expect(try await code(response((field, "\(Self.sha512), \(Self.sha256)")), .required) == nil)
        #expect(try await code(response((field, Self.sha512), (field, Self.wrong))) == .responseInvalid)
        #expect(try await code(response((field, Self.wrong))) == .responseInvalid)
        #expect(try await code(response((field, Self.wrong)), .off) == nil)
    }

    @Test("other algorithms and malformed fields are ignored; a required digest is then missing")
    func unknown() async throws {
        for value in [
            "md5=:AAAA:", "sha-256=RK0", "sha-256=:RK/0:x", "SHA-256=:AAAA:", "sha-256=:AA", "\(Self.wrong),",
        ] {
            #expect(try await code(response(("Repr-Digest", value))) == nil, "\(value)")
            #expect(try await code(response(("Repr-Digest", value)), .required) == .responseInvalid, "\(value)")
        }
        let both = response(("Repr-Digest", "new=:AAAA:;p=1, \(Self.sha256)"))
        #expect(try await code(both, .required) == nil)
        #expect(try await code(response(), .required) == .responseInvalid)
        #expect(try await code(response()) == nil)
    }

    @Test("a field with thousands of algorithms keeps the last of each known one")
    func manyAlgorithms() throws {
        let others = (0..<20_000).map { "a\($0)=:AAAA:" }.joined(separator: ", ")
        let members = try #require(DigestField.parse("\(Self.wrong), \(others), \(Self.sha256)"))
        #expect(members.count == 1 && members[.sha256]?.starts(with: [0x44, 0xAF, 0xF4]) == true)
        #expect(try #require(DigestField.parse(others)).isEmpty)
        #expect(DigestField.parse("\(others), x") == nil)
    }

    @Test("the digest is that of the coded body, before it is decoded")
    func coded() async throws {
        let stage = try StubStage { $0.digestCheck = .required }
        let coded = StubResponse.bytes(CodedBody.gzip).adding("Content-Encoding", "gzip")
        let digest = "sha-256=:1vmST5n+Entk5uqgkj4M8QuLSc7RceHjWp6pIXewRjw=:"
        try stage.origin.route(nil, "/coded", response: coded.adding("Repr-Digest", digest))
        let decoded = "sha-256=:PqHMG1E5iuqHJzLwtH3ta43phIp+sgSLyLL63hLP8tU=:"
        try stage.origin.route(nil, "/decoded", response: coded.adding("Repr-Digest", decoded))
        #expect(try await stage.manager.get("coded", serializer: .data).value == CodedBody.text)
        let failure = await #expect(throws: RequestFailure.self) {
            try await stage.manager.get("decoded", serializer: .data)
        }
        #expect(failure?.sessionError?.code == .responseInvalid)
        await stage.end()
    }

    @Test("a part is compared with Content-Digest alone, and an empty body with nothing")
    func parts() async throws {
        var part = response(("Repr-Digest", Self.wrong), ("Content-Range", "bytes 0-18/100"))
        part.status = 206
        #expect(try await code(part) == nil)
        #expect(try await code(part, .required) == .responseInvalid)
        #expect(try await code(part.adding("Content-Digest", Self.sha256), .required) == nil)
        #expect(try await code(part.adding("Content-Digest", Self.wrong)) == .responseInvalid)
        #expect(try await code(response(("Repr-Digest", Self.wrong)), .required, method: .head) == nil)
        #expect(try await code(StubResponse(status: 204), .required) == nil)
    }

    @Test("a trailer may have the digest")
    func trailers() async throws {
        for (digest, expected) in [(Self.sha512, nil), (Self.wrong, SessionError.Code.responseInvalid)] {
            let (pieces, sent) = AsyncStream<[UInt8]>.makeStream()
            sent.yield(Self.content)
            sent.finish()
            var response = StubResponse(body: .source(.sequence(pieces)))
            response.trailers = ["Content-Digest": digest]
            #expect(try await code(response, .required) == expected)
        }
    }

    @Test("a download with another digest leaves no file")
    func downloads() async throws {
        let stage = try StubStage { $0.digestCheck = .ifPresent }
        try stage.origin.route(nil, "/right", response: response(("Repr-Digest", Self.sha256)))
        try stage.origin.route(nil, "/wrong", response: response(("Repr-Digest", Self.wrong)))
        let folder = try TemporaryFolder()
        for (path, isRight) in [("right", true), ("wrong", false)] {
            let request = try stage.manager.download(.get, path) { _, _ in ("\(folder.path)/\(path)", []) }
            let result = try? await request.response()
            #expect((result != nil) == isRight && request.resumeData == nil)
        }
        await stage.end()
    }
}
