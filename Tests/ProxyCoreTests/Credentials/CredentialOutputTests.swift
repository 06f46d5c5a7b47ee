// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import SessionCore
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("The output of a credential's source")
struct CredentialOutputTests {
    /// 2026-11-26T00:00:00Z.
    private static let now: Int64 = 1_795_651_200

    private func read(
        _ text: String,
        _ form: CredentialOutput.Form = .plainOrJSON,
        prefix: String = "Bearer "
    ) throws(CredentialFault) -> (value: String, end: Int64?) {
        let output = try CredentialOutput(Array(text.utf8), as: form, prefix: Array(prefix.utf8), now: Self.now)
        guard case .token(let token) = output.secret else { return ("keys", output.end) }
        return (String(copying: token.bytes), output.end)
    }

    private func fault(
        _ text: String,
        _ form: CredentialOutput.Form = .plainOrJSON,
        prefix: String = "Bearer "
    ) -> String {
        do throws(CredentialFault) {
            let found = try read(text, form, prefix: prefix)
            return "accepted: \(found.value)"
        } catch {
            #expect(error.code == .output)
            return error.message
        }
    }

    @Test("a line is a value, without its final newline")
    func lines() throws {
        for text in ["key-12345678", "key-12345678\n", "key-12345678\r\n"] {
            for form in [CredentialOutput.Form.plain, .plainOrJSON] {
                let found = try read(text, form)
                #expect(found.value == "key-12345678" && found.end == nil)
            }
        }
        #expect(try read("a key with spaces").value == "a key with spaces")
        #expect(try read("{\"token\":\"12345678\"}", .plain).value == "{\"token\":\"12345678\"}")
    }

    @Test("a value that is short, long or unfit for a field is refused")
    func refused() {
        #expect(fault("") == "the value is empty")
        #expect(fault("\n") == "the value is empty")
        #expect(fault("1234567") == "the value is shorter than 8 bytes")
        for text in ["12345678\n\n", "1234\n5678", "1234567\u{7F}8", "1234\t5678", "pässword-1", "12345678\u{0}"] {
            #expect(fault(text).contains("line break"), "\(text)")
        }
        #expect(fault(" 12345678").contains("white space") && fault("12345678 \n").contains("white space"))
        #expect(fault(String(repeating: "a", count: (64 << 10) + 1)) == "more than 64 KB")
        let invalid = [UInt8](repeating: 0xFF, count: 9)
        #expect(throws: CredentialFault.self) { try CredentialOutput(invalid, as: .plain, now: Self.now) }
        for text in ["Bearer 12345678", "bearer 12345678"] { #expect(fault(text).contains("prefix")) }
        #expect(fault("Bearer 12345678", prefix: "") == "accepted: Bearer 12345678")
    }

    @Test("a JSON object has a token and an end in RFC 3339")
    func objects() throws {
        let found = try read(#" {"token": "t-12345678", "expires": "2026-11-26T01:00:00+00:30", "more": [1]}"#)
        #expect(found.value == "t-12345678" && found.end == Self.now + 1800)
        #expect(try read(#"{"token": "t-12345678"}"#).end == nil)
        #expect(try read(#"{"token": "t-12345678", "expires": null}"#).end == nil)
        for (text, reason) in [
            (#"{"token": "short"}"#, "shorter"), (#"{"token": 12345678}"#, "no string"), (#"{}"#, "missing"),
            (#"{"token": "a", "token": "t-12345678"}"#, "not a JSON object"),
            (#"{"token": "t-12345678""#, "not a JSON"),
            (#"{"token": "t-1234\n5678"}"#, "line break"),
            (#"{"token": "t-12345678", "expires": "tomorrow"}"#, "RFC 3339"),
            (#"{"token": "t-12345678", "expires": 1800000000}"#, "no string"),
            (#"{"token": "t-12345678", "expires": "2026-11-26T00:00:00Z"}"#, "has passed"),
            (#"{"token": "t-12345678", "expires": "0000-01-01T00:00:00Z"}"#, "has passed"),
            (#"{"token": "Bearer 12345678"}"#, "prefix"),
        ] {
            #expect(fault(text).contains(reason), "\(text): \(fault(text))")
        }
        #expect(try read(#"{"token": "t-12345678", "expires": "9999-12-31T23:59:59Z"}"#).end == 253_402_300_799)
    }

    @Test("an ExecCredential of Kubernetes is read")
    func execCredential() throws {
        let text = """
            {"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false},
             "status":{"expirationTimestamp":"2026-11-26T00:15:00Z","token":"k8s-aws-v1.abcdef"}}
            """
        let found = try read(text)
        #expect(found.value == "k8s-aws-v1.abcdef" && found.end == Self.now + 900)
        #expect(fault(#"{"kind":"ExecCredential","status":{"clientCertificateData":"x"}}"#).contains("missing"))
        #expect(fault(#"{"status": "none"}"#).contains("no object"))
    }

    @Test("a token server's response is read; an invalid lifetime means no end")
    func tokenResponses() throws {
        func end(_ member: String) throws -> Int64? {
            try read("{\"access_token\":\"t-12345678\",\"token_type\":\"bearer\"\(member)}", .tokenResponse).end
        }
        #expect(try end(",\"expires_in\":3600") == Self.now + 3600)
        #expect(try end(",\"expires_in\":\"3600\"") == Self.now + 3600)
        #expect(try end(",\"expires_in\":3599.9") == Self.now + 3599)
        for none in ["", "0", "-5", "null", "true", "\"\"", "\"soon\"", "1e9", "1.5e3"] {
            #expect(try end(none.isEmpty ? "" : ",\"expires_in\":\(none)") == nil, "\(none)")
        }
        #expect(try end(",\"expires_in\":99999999999999999999999") == .max)
        #expect(try end(",\"expires_in\":9223372036854775807") == .max)
        #expect(fault(#"{"access_token":"t-12345678","token_type":"mac"}"#, .tokenResponse).contains("token_type"))
        #expect(try read(#"{"access_token":"t-12345678"}"#, .tokenResponse).value == "t-12345678")
        #expect(fault(#"{"error":"invalid_client"}"#, .tokenResponse).contains("access_token"))
    }

    @Test("keys of AWS are read from the JSON of credential_process")
    func keys() throws {
        let text = """
            {"Version": 1, "AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "wJalrXUtnFEMI", "SessionToken": "session-1",
             "Expiration": "2026-11-26T01:00:00Z"}
            """
        let output = try CredentialOutput(Array(text.utf8), as: .keys, now: Self.now)
        guard case .keys(let keys) = output.secret else { return #expect(Bool(false)) }
        #expect(String(copying: keys.identifier.bytes) == "AKIDEXAMPLE")
        #expect(String(copying: keys.secret.bytes) == "wJalrXUtnFEMI")
        #expect(keys.session.map { String(copying: $0.bytes) } == "session-1")
        #expect(output.end == Self.now + 3600)
        #expect(fault(#"{"AccessKeyId": "AKIDEXAMPLE"}"#, .keys).contains("SecretAccessKey"))
        #expect(fault("AKIDEXAMPLE:wJalrXUtnFEMI", .keys).contains("not a JSON object"))
        #expect(
            fault(#"{"AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "with\u000abreak"}"#, .keys).contains(
                "line break"
            )
        )
    }

    @Test("no fault and no description shows a part of the secret")
    func silence() throws {
        for text in [
            "s3cr3t", "s3cr3t-\u{1}", "{\"token\": s3cr3t}", "{\"token\":\"s3cr3t\"}", "{\"s3cr3t",
            "{\"token\":\"s3cr3t\\q\"}",
        ] {
            #expect(!fault(text).contains("s3cr3t"), "\(text)")
        }
        let output = try CredentialOutput(Array("s3cr3t-12345678".utf8), as: .plain, now: 0)
        let value = CredentialValue(CredentialDefinition(name: "n", source: .env(name: "N")), output, end: nil)
        var dumped = ""
        dump(value, to: &dumped)
        dump(output.secret, to: &dumped)
        for shown in ["\(output)", "\(value)", String(reflecting: value), String(reflecting: output.secret), dumped] {
            #expect(!shown.contains("s3cr3t") && !shown.contains("115"), "\(shown)")
        }
    }
}

@Suite("The value of a credential")
struct CredentialValueTests {
    private func value(_ text: String, end: Int64? = nil, _ change: (inout CredentialDefinition) -> Void = { _ in })
        throws
        -> CredentialValue
    {
        var definition = CredentialDefinition(name: "n", source: .env(name: "N"))
        change(&definition)
        return CredentialValue(definition, try CredentialOutput(Array(text.utf8), as: .plain, now: 0), end: end)
    }

    private func sent(_ value: CredentialValue) -> String {
        if case .field(let bytes) = value.content { String(copying: bytes.bytes) } else { "" }
    }

    @Test("the value is sent with its prefix, or as a Basic password")
    func written() throws {
        #expect(sent(try value("12345678")) == "Bearer 12345678")
        #expect(sent(try value("12345678") { ($0.header, $0.prefix) = ("x-api-key", "") }) == "12345678")
        let basic = try value("open sesame") { $0.basicUser = "Aladdin" }
        #expect(sent(basic) == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
        #expect(String(decoding: basic.header, as: UTF8.self) == "Authorization" && basic.headerID == .authorization)
    }

    @Test("the value ends at its end, and not before")
    func ends() throws {
        let ending = try value("12345678", end: 100)
        #expect(ending.isValid(at: 99) && !ending.isValid(at: 100))
        #expect(try value("12345678").isValid(at: .max))
    }

    @Test("two values are the same when their secrets are, whatever their ends")
    func comparison() throws {
        let one = try value("12345678", end: 1)
        #expect(one.isSame(as: try value("12345678", end: 2)))
        #expect(!one.isSame(as: try value("12345679", end: 1)))
    }

    @Test("the mask finds the value, also in Basic's form")
    func masks() throws {
        let basic = try value("open sesame") { $0.basicUser = "Aladdin" }
        for text in [
            "open sesame", "open+sesame", "open%20sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "QWxhZGRpbjpvcGVuIHNlc2FtZQ%3D%3d",
        ] {
            let bytes = Array("x=\(text)".utf8)
            let isFound = basic.mask.holds(bytes.span)
            #expect(isFound, "\(text)")
        }
    }

    @Test("the secrets of AWS's keys are masked, the key's name is not")
    func masksOfKeys() throws {
        let text = """
            {"Version": 1, "AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "secret/of+key", "SessionToken": "token//of=session"}
            """
        let scope = AWSScope(region: "eu-west-1", service: "sts")
        let source = AWSSource(scope: scope, keys: .file(path: "/keys"))
        let definition = CredentialDefinition(name: "aws", source: .awsSigV4(source))
        let output = try CredentialOutput(Array(text.utf8), as: .keys, now: 0)
        let value = CredentialValue(definition, output, end: nil)
        for (text, isMasked) in [("secret/of+key", true), ("token//of=session", true), ("AKIDEXAMPLE", false)] {
            let bytes = Array("x=\(text)".utf8)
            let isFound = value.mask.holds(bytes.span)
            #expect(isFound == isMasked, "\(text)")
        }
    }
}
