// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("What a client must send for a credential")
struct CredentialDemandTests {
    private static let llm: CredentialDefinition = {
        var definition = CredentialDefinition(name: "llm", source: .env(name: "KEY"))
        (definition.header, definition.prefix) = ("X-Api-Key", "")
        definition.placeholder = "agent-key-1"
        return definition
    }()

    private static let git: CredentialDefinition = {
        var definition = CredentialDefinition(name: "git", source: .env(name: "KEY"))
        (definition.basicUser, definition.placeholder) = ("token", "agent-key-2")
        return definition
    }()

    private static let aws = CredentialDefinition(
        name: "aws",
        source: .awsSigV4(
            AWSSource(scope: AWSScope(region: "eu-west-1", service: "sts"), keys: .command(["/bin/true"]))
        )
    )

    private static let all = [llm, git, aws]

    /// The code of the refusal; nil when the request may have them.
    private func refusal(_ given: [String], _ lines: String..., target: String = "/") throws -> String? {
        let all = ["GET http://api.example\(target) HTTP/1.1", "Host: api.example"] + lines + ["", ""]
        let text = all.joined(separator: "\r\n")
        var parser = RequestParser(limits: HeadLimits())
        var head = RequestHead()
        guard case .complete = parser.parse(Array(text.utf8).span, into: &head).outcome else { return "no request" }
        let rule = given.isEmpty ? nil : RuleCredentials(given, of: Self.all, place: 0)
        let demand = CredentialDemand(head, rule, Self.all.compactMap { CredentialPlaceholder($0) })
        return demand.problem.map { "\($0.status) \($0.code.rawValue)" }
    }

    @Test("the placeholder is in its credential's field, in any scheme")
    func placeholders() throws {
        #expect(try refusal(["llm"], "X-Api-Key: agent-key-1") == nil)
        #expect(try refusal(["llm"], "x-api-key: Bearer agent-key-1") == nil)
        #expect(try refusal(["llm"]) == "403 credential_required")
        #expect(try refusal(["llm"], "X-Api-Key: agent-key-") == "403 credential_required")
        #expect(try refusal(["llm"], "Authorization: agent-key-1") == "403 credential_required")
        #expect(try refusal(["llm"], "X-Other-Key: agent-key-1") == "403 credential_required")
        let basic = Base64.encode(Array("me:agent-key-2".utf8))
        #expect(try refusal(["git"], "Authorization: Basic \(basic)") == nil)
        #expect(try refusal(["git"], "Authorization: basic \(basic)") == nil)
        #expect(try refusal(["git"], "Authorization: Basic   \(basic)") == nil)
        #expect(try refusal(["git"], "Authorization: Basic \t\(basic)") == nil)
        for user in ["me", "you", "many"] {
            let text = Base64.encode(Array("\(user):agent-key-2".utf8)).prefix { $0 != "=" }
            #expect(try refusal(["git"], "Authorization: Basic \(text)") == nil, "\(text)")
        }
        #expect(try refusal(["git"], "Authorization: Basic\(basic)") == "403 credential_required")
        #expect(try refusal(["git"], "Authorization: Basic ==") == "403 credential_required")
        #expect(try refusal(["git"], "Authorization: Basic AAAAA") == "403 credential_required")
        // Without it the client is asked, and sends what its URL holds.
        #expect(try refusal(["git"]) == "401 credential_required")
        #expect(try refusal(["git"], "Origin: https://evil.example") == "403 credential_withheld")
        #expect(try refusal(["git"], "Authorization: Basic %%%") == "403 credential_required")
        #expect(try refusal(["git", "llm"], "Authorization: Basic \(basic)") == "403 credential_required")
        #expect(try refusal(["git", "llm"], "Authorization: Basic \(basic)", "X-Api-Key: agent-key-1") == nil)
    }

    @Test("a placeholder outside its rule is refused, the client's own keys are not")
    func misdirected() throws {
        #expect(try refusal([], "X-Api-Key: agent-key-1") == "403 credential_misdirected")
        #expect(try refusal(["aws"], "X-Api-Key: agent-key-1") == "403 credential_misdirected")
        let elsewhere = ["Authorization: Bearer agent-key-1", "X-Other-Key: agent-key-1"]
        #expect(try refusal([], "X-Api-Key: another", elsewhere[0], elsewhere[1]) == nil)
    }

    @Test("another site's page gets none, and a piecewise signed body fails")
    func withheld() throws {
        #expect(try refusal(["aws"], "Sec-Fetch-Site: same-site") == "403 credential_withheld")
        #expect(try refusal(["aws"], "Origin: https://evil.example") == "403 credential_withheld")
        #expect(try refusal(["aws"], "Sec-Fetch-Site: none", "Origin: https://api.example") == nil)
        #expect(try refusal([], "Origin: https://evil.example") == nil)
        let digest = "X-Amz-Content-SHA256: "
        #expect(try refusal(["aws"], digest + "STREAMING-AWS4-HMAC-SHA256-PAYLOAD") == "403 credential_withheld")
        #expect(try refusal(["aws"], digest + "UNSIGNED-PAYLOAD") == nil)
        #expect(try refusal(["aws"], digest + String(repeating: "a", count: 64)) == nil)
    }

    @Test(
        "a request with the client's own signed query is not signed",
        arguments: [
            ("/a?X-Amz-Algorithm=AWS4-HMAC-SHA256", true), ("/a?b=c&x-amz-signature=d", true),
            ("/a?X%2dAmz%2DCredential", true), ("/a?b;X-Amz-Security-Token=c", true), ("/a?AWSAccessKeyId=b&c", true),
            ("/a?X-Amz-Date=b&X-Amz-Signatures=c", false), ("/a?b=X-Amz-Signature", false),
            ("/X-Amz-Signature=b", false), ("/a?b=c=X-Amz-Signature&", false), ("/a?X-Amz-Signature%", false),
        ]
    )
    func signedQuery(target: String, isSigned: Bool) throws {
        #expect(try refusal(["aws"], target: target) == (isSigned ? "403 credential_withheld" : nil))
        #expect(try refusal([], target: target) == nil)
    }

    @Test("of the client's fields those of written names stay behind")
    func ofClient() {
        let sent = [
            "Authorization", "Cookie", "X-Api-Key", "x!api~key", "X-Amz-Date", "x_amz-security_token",
            "X-Amz-Security-Token", "X-Api-Keys", "Accept", "X-Amz-Acl",
        ]
        func kept(_ names: [String]) -> [String] {
            var fields = HeaderFields()
            for name in sent { fields.append(name: Array(name.utf8).span, value: Array("of-client".utf8).span) }
            RuleCredentials(names, of: Self.all, place: 0).removeFieldsOfClient(from: &fields)
            return (0..<fields.count).map { String(copying: fields.name(at: $0)) }
        }
        let amz = ["X-Amz-Date", "x_amz-security_token", "X-Amz-Security-Token"]
        #expect(kept(["llm"]) == amz + ["X-Api-Keys", "Accept", "X-Amz-Acl"])
        #expect(kept(["git"]) == ["X-Api-Key", "x!api~key"] + amz + ["X-Api-Keys", "Accept", "X-Amz-Acl"])
        #expect(kept(["aws"]) == ["X-Api-Key", "x!api~key", "X-Api-Keys", "Accept", "X-Amz-Acl"])
        #expect(kept(["llm", "aws"]) == ["X-Api-Keys", "Accept", "X-Amz-Acl"])
    }

    @Test("a client learns neither a source's place nor its words")
    func faults() {
        for code in CredentialFault.Code.allCases {
            let problem = Problem(CredentialFault(code, "the file /run/secrets/llm is not there"), of: "llm")
            #expect(problem.code == .credentialUnavailable && problem.status == 502)
            #expect(problem.details.contains(code.cause) && !problem.details.contains("secrets"), "\(problem.details)")
        }
    }

    @Test("several credentials reach unpinned hosts only if each may")
    func severalUnpinned() {
        var open = Self.llm
        open.allowUnpinned = true
        let all = [open, Self.git]
        #expect(RuleCredentials(["llm"], of: all, place: 0).allowsUnpinned)
        #expect(!RuleCredentials(["git"], of: all, place: 0).allowsUnpinned)
        #expect(!RuleCredentials(["llm", "git"], of: all, place: 0).allowsUnpinned)
    }

    @Test("stored responses are separate by names and definitions")
    func partitions() {
        let llm = RuleCredentials(["llm"], of: Self.all, place: 0)
        #expect(llm.partition == RuleCredentials(["llm"], of: Self.all, place: 3).partition)
        #expect(llm.partition != RuleCredentials(["git"], of: Self.all, place: 0).partition)
        #expect(llm.partition != RuleCredentials(["llm", "git"], of: Self.all, place: 0).partition)
        var other = Self.llm
        other.prefix = "Key "
        #expect(llm.partition != RuleCredentials(["llm"], of: [other], place: 0).partition)
        let fields = HeaderFields()
        let shared = CachePartition.bytes(of: [1], fields, nil, isShared: true)
        let mine = CachePartition.bytes(of: [1], fields, llm.partition, isShared: true)
        #expect(shared.isEmpty && mine != CachePartition.bytes(of: [2], fields, llm.partition, isShared: true))
        #expect(String(decoding: llm.logText, as: UTF8.self) == ",\"credential\":\"llm\"")
    }
}
