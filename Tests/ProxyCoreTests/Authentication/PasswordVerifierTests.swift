// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("Passwords and their hashes")
struct PasswordVerifierTests {
    @Test(
        "every form of hash is verified by the system's libcrypt",
        arguments: [
            "$6$rounds=1000$saltsalt$LAV5VE5Y7w1d73x1mFNspYWUpazfmwv2SoepNXNKJ/otop/Zok96Hr8Q13LEv0DRY/x8v0/crpIjl8NJSAqXV/",
            "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
            "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
            "$y$j75$saltsaltsalt$jyf/lxrpdyAIshWRo1x5DRC6KIE7sNRRtjcomR3PgHA",
        ]
    )
    func verifies(hash: String) throws {
        _ = try PasswordFile(Array("alice:\(hash)".utf8))
        #expect(PasswordVerifier.matches(Array("secret".utf8), hash))
        #expect(!PasswordVerifier.matches(Array("Secret".utf8), hash))
        #expect(!PasswordVerifier.matches([], hash))
        // For C the password would end there.
        #expect(!PasswordVerifier.matches(Array("secret\0".utf8), hash))
    }
}
