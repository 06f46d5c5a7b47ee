// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import TestSupport
import Testing

@Suite("The user's name in a certificate")
struct CertificateIdentityTests {
    private static let pki = try! TestPKI()

    private func identity(_ names: [CertificateBuilder.Name], isCA: Bool = false) throws -> String {
        var builder = CertificateBuilder.server(hosts: [], validity: TestPKI.validity)
        builder.subject = [("O", "SPIRE"), ("CN", "agent")]
        builder.names = names
        builder.isCA = isCA
        return try builder.identity(issuer: Self.pki.intermediate).certificate.identity
    }

    @Test("the only URI of a certificate is its SPIFFE ID; two give none")
    func spiffe() throws {
        let one = "spiffe://example.org/ns/agents/sa/Builder-7"
        let subject = "O = SPIRE, CN = agent"
        #expect(try identity([.uri(one)]) == one)
        #expect(try identity([.dns("a.example.org"), .uri(one), .email("a@example.org"), .ip("192.0.2.1")]) == one)
        #expect(try identity([]) == subject)
        #expect(try identity([.dns("a.example.org")]) == subject)
        #expect(try identity([.uri(one), .uri(one)]) == subject)
        #expect(try identity([.uri(one), .uri("https://example.org/")]) == subject)
        #expect(try identity([.uri("https://example.org/agent")]) == subject)
        // A signing certificate names the whole trust domain.
        #expect(try identity([.uri("spiffe://example.org")], isCA: true) == subject)
        // A long one is not cut: it would then be another's.
        let long = "spiffe://example.org/" + String(repeating: "a", count: 2000)
        #expect(try identity([.uri(long)]) == long)
    }

    @Test(
        "a SPIFFE ID has one form",
        arguments: [
            ("spiffe://example.org", true), ("spiffe://example.org/a", true), ("spiffe://e_x-1.org/A.b_c-9/d", true),
            ("spiffe://", false), ("spiffe:///a", false), ("spiffe://example.org/", false),
            ("SPIFFE://example.org", false),
            ("spiffe://Example.org/a", false), ("spiffe://example.org//a", false), ("spiffe://example.org/./a", false),
            ("spiffe://example.org/a/..", false), ("spiffe://example.org/a?b", false),
            ("spiffe://example.org/a#b", false),
            ("spiffe://example.org:443/a", false), ("spiffe://u@example.org/a", false),
            ("spiffe://example.org/%61", false),
            ("spiffe://example.org/a b", false), ("spiffe://example.org/\u{e9}", false),
            ("spiffe:/example.org/a", false),
            ("https://example.org/a", false), ("", false),
        ]
    )
    func form(text: String, isOne: Bool) throws {
        #expect(SPIFFEID.isValid(Array(text.utf8)) == isOne)
        if !isOne, !text.isEmpty, text.allSatisfy(\.isASCII) {
            #expect(try identity([.uri(text)]) == "O = SPIRE, CN = agent")
        }
    }
}
