// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Digest authentication")
struct DigestAuthenticationTests {
    private static func challenge(_ text: String) throws -> DigestAuthentication {
        let challenge = try #require(HTTPChallenge.list(Array("Digest \(text)".utf8)).first)
        return try #require(DigestAuthentication(challenge))
    }

    /// The parameters of an answer.
    private static func parameters(_ value: String?) throws -> [String: String] {
        let value = try #require(value)
        return try #require(HTTPChallenge.list(Array(value.utf8)).first).parameters
    }

    @Test(
        "the examples of RFC 7616, section 3.9.1",
        arguments: [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ]
    )
    func examples(algorithm: String, response: String) throws {
        let digest = try Self.challenge(
            """
            realm="http-auth@example.org", qop="auth, auth-int", algorithm=\(algorithm), \
            nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"
            """
        )
        let value = digest.authorization(
            user: "Mufasa",
            password: "Circle of Life",
            method: .get,
            target: Array("/dir/index.html".utf8),
            count: 1,
            clientNonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
        )
        #expect(
            try Self.parameters(value) == [
                "username": "Mufasa", "realm": "http-auth@example.org", "uri": "/dir/index.html",
                "algorithm": algorithm, "nonce": "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", "nc": "00000001",
                "cnonce": "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", "qop": "auth", "response": response,
                "opaque": "FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS",
            ]
        )
        #expect(value?.contains("nc=00000001, ") == true)
    }

    @Test("the example of RFC 2069, section 2.4, has no counter and no client nonce")
    func oldForm() throws {
        let digest = try Self.challenge("realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\"")
        let value = digest.authorization(
            user: "Mufasa",
            password: "CircleOfLife",
            method: .get,
            target: Array("/dir/index.html".utf8),
            count: 1,
            clientNonce: "unused"
        )
        #expect(try Self.parameters(value)["response"] == "1949323746fe6a43ef61f9606e7febea")
        #expect(value?.contains("cnonce") == false && value?.contains("algorithm") == false)
    }

    @Test("session algorithms, user hashes and names beyond ASCII")
    func variants() throws {
        func response(_ rest: String, user: String = "u\"1") throws -> [String: String] {
            let digest = try Self.challenge("realm=r, nonce=n, qop=auth, \(rest)")
            return try Self.parameters(
                digest.authorization(
                    user: user,
                    password: "p",
                    method: .post,
                    target: Array("/a?b".utf8),
                    count: 0x1F,
                    clientNonce: "c"
                )
            )
        }
        let hash = MessageDigest.sha256
        let second = hash.hex("POST:/a?b")
        let session = try response("algorithm=SHA-256-sess")
        let first = hash.hex("\(hash.hex("u\"1:r:p")):n:c")
        #expect(session["response"] == hash.hex("\(first):n:0000001f:c:auth:\(second)"))
        #expect(session["username"] == "u\"1")
        let hashed = try response("algorithm=SHA-256, userhash=true")
        #expect(hashed["username"] == hash.hex("u\"1:r") && hashed["userhash"] == "true")
        let named = try response("algorithm=SHA-256", user: "Jäsøn Doe")
        #expect(named["username"] == nil)
        #expect(named["username*"] == "UTF-8''J%C3%A4s%C3%B8n%20Doe")
        #expect(try response("algorithm=SHA-512-256")["response"]?.count == 64)
    }

    /// NIST's examples for "abc" (FIPS 180-4), and that of RFC 1321.
    @Test("the hashes are those of their names")
    func hashes() {
        #expect(MessageDigest.md5.hex("abc") == "900150983cd24fb0d6963f7d28e17f72")
        #expect(
            MessageDigest.sha256.hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        )
        #expect(
            MessageDigest.sha512Truncated.hex("abc")
                == "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"
        )
    }

    @Test(
        "a challenge with unknown parameters is not met",
        arguments: [
            "realm=r", "nonce=n", "realm=r, nonce=n, qop=auth-int", "realm=r, nonce=n, algorithm=SHA-1",
            "realm=r, nonce=n, algorithm=SHA-256", "realm=r, nonce=n, algorithm=MD5-sess",
        ]
    )
    func unknown(text: String) throws {
        let challenge = try #require(HTTPChallenge.list(Array("Digest \(text)".utf8)).first)
        #expect(DigestAuthentication(challenge) == nil)
    }
}
