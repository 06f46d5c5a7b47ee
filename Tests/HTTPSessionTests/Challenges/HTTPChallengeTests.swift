// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Reading WWW-Authenticate")
struct HTTPChallengeTests {
    private static func read(_ values: String...) throws -> [HTTPChallenge] {
        var fields = HeaderFields()
        for value in values { try fields.append(name: "WWW-Authenticate", value: value) }
        return HTTPChallenge.challenges(in: fields)
    }

    @Test(
        "one challenge is read with its parameters",
        arguments: [
            ("Basic realm=\"a\"", HTTPChallenge(scheme: "basic", parameters: ["realm": "a"])),
            ("BASIC Realm = a", HTTPChallenge(scheme: "basic", parameters: ["realm": "a"])),
            (
                "Basic realm=\"a, \\\"b\\\"\", charset=\"UTF-8\"",
                HTTPChallenge(scheme: "basic", parameters: ["realm": "a, \"b\"", "charset": "UTF-8"])
            ),
            ("Negotiate", HTTPChallenge(scheme: "negotiate")),
            ("Negotiate YWJj==", HTTPChallenge(scheme: "negotiate", token: "YWJj==")),
            ("Bearer realm=\"\"", HTTPChallenge(scheme: "bearer", parameters: ["realm": ""])),
            (",, Basic realm=a ,", HTTPChallenge(scheme: "basic", parameters: ["realm": "a"])),
        ]
    )
    func one(text: String, challenge: HTTPChallenge) throws {
        #expect(try Self.read(text) == [challenge])
    }

    @Test("commas part parameters and challenges alike, and fields of one name are one list")
    func several() throws {
        let all = try Self.read(
            "Newauth realm=\"apps\", type=1, title=\"Login to \\\"apps\\\"\", Basic realm=\"simple\", Negotiate",
            "Negotiate abc=, Digest realm=r, nonce=\"n\""
        )
        #expect(all.map(\.scheme) == ["newauth", "basic", "negotiate", "negotiate", "digest"])
        #expect(all[0].parameters == ["realm": "apps", "type": "1", "title": "Login to \"apps\""])
        #expect(all[3].token == "abc=")
        #expect(all[4].parameters == ["realm": "r", "nonce": "n"])
    }

    @Test(
        "an unreadable challenge ends its field, and earlier ones count",
        arguments: [
            "Basic realm=\"open", "Basic realm=a realm=b", "Basic realm=a, realm=b", "Basic realm=a, b=",
            "Basic realm=\"a\\",
            "Basic realm=\"a\"b", "=", "Basic\u{1}", "Basic realm=\"\u{fffd}",
        ]
    )
    func malformed(text: String) throws {
        #expect(HTTPChallenge.list(Array(text.utf8)) == [])
        #expect(HTTPChallenge.list(Array("Bearer, \(text)".utf8)).map(\.scheme) == ["bearer"])
    }

    @Test("the best way stands first: Digest by its hash, then Bearer, then Basic")
    func order() throws {
        var head = ResponseHead()
        var parser = ResponseHeadParser()
        _ = parser.consume(line: Array("HTTP/1.1 401 X\r\n".utf8).span, answering: .get, into: &head)
        for value in [
            "Basic realm=b", "Digest realm=d, nonce=1, qop=auth", "Bearer", "Other x=1",
            "Digest realm=d, nonce=2, qop=\"auth-int,auth\", algorithm=SHA-256", "Digest realm=d, nonce=3, algorithm=X",
            "Digest realm=d, nonce=4, qop=auth-int", "Digest realm=d, nonce=5, algorithm=SHA-256", "Basic charset=x",
        ] {
            let line = Array("WWW-Authenticate: \(value)\r\n".utf8)
            _ = parser.consume(line: line.span, answering: .get, into: &head)
        }
        _ = parser.consume(line: Array("\r\n".utf8).span, answering: .get, into: &head)
        let origin = try #require(AbsoluteURL("https://a.example/")).origin
        let offers = OfferedAuthentication.list(head, at: origin)
        #expect(offers.map(\.space.authenticationMethod) == [.httpDigest, .httpDigest, .bearer, .httpBasic])
        #expect(offers.map { $0.digest?.nonce } == ["2", "1", nil, nil])
        #expect(offers.map(\.space.realm) == ["d", "d", nil, "b"])
    }
}
