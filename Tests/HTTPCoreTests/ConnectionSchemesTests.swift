// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import HTTPCore

@Suite("Schemes that authenticate connections")
struct ConnectionSchemesTests {
    private func fields(_ lines: (String, String)...) throws -> HeaderFields {
        var fields = HeaderFields()
        for (name, value) in lines { try fields.append(name: name, value: value) }
        return fields
    }

    @Test(
        "a request authenticates its connection by the scheme of Authorization, in any case",
        arguments: [
            ("NTLM TlRMTVNTUAAB", true), ("ntlm", true), ("Negotiate\tYIIJ", true), ("nEGOTIATE x", true),
            ("Basic TlRMTQ==", false), ("Bearer NTLM", false), ("NTLMv2 x", false),
            ("Digest username=\"a, NTLM\"", false), ("Basic eDp5, Negotiate YII=", true),
        ]
    )
    func request(value: String, isOne: Bool) throws {
        #expect(try fields(("authorization", value)).authenticatesConnection == isOne)
        #expect(try fields(("Authorization", "Basic eDp5"), ("Authorization", value)).authenticatesConnection == isOne)
        #expect(try !fields(("X-Authorization", value), ("Proxy-Authorization", value)).authenticatesConnection)
    }

    @Test(
        "a response offers it in any field and position",
        arguments: [
            ("NTLM", true), ("Basic realm=\"x\", negotiate", true), ("Negotiate oRQwEg==", true),
            ("Digest realm=\"a\", nonce=\"b\", nTlM, Basic", true), ("Basic realm=\"a, NTLM\"", false),
            ("Basic realm=NTLM", false), (", ,", false), ("", false),
        ]
    )
    func response(value: String, isOne: Bool) throws {
        #expect(try fields(("WWW-Authenticate", value)).offersConnectionAuthentication == isOne)
        let both = try fields(("www-authenticate", "Bearer"), ("Date", "x"), ("WWW-Authenticate", value))
        #expect(both.offersConnectionAuthentication == isOne)
        #expect(try !fields(("Proxy-Authenticate", value)).offersConnectionAuthentication)
    }
}
