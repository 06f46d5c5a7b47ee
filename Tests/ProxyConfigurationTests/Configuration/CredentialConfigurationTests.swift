// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@testable import ProxyConfiguration

@Suite("credentials in the configuration")
struct CredentialConfigurationTests {
    private func read(_ credentials: String, more: String = "") -> (
        configuration: Configuration, issues: [DocumentIssue], warnings: [DocumentIssue]
    ) {
        readConfiguration(#"{ "version": 1, "credentials": { \#(credentials) }\#(more.isEmpty ? "" : ", " + more) }"#)
    }

    private func one(_ members: String) throws -> CredentialDefinition {
        let read = read(#""c": { \#(members) }"#)
        try #require(read.issues.isEmpty, "\(read.issues)")
        return try #require(read.configuration.credentials.first)
    }

    /// The pointer and the message of the only issue.
    private func issue(_ members: String) -> String {
        let issues = read(#""c": { \#(members) }"#).issues
        return issues.count == 1 ? "\(issues[0].pointer): \(issues[0].message)" : "\(issues.count) issues: \(issues)"
    }

    @Test("each source is read, with its field's defaults")
    func sources() throws {
        let bearer = try one(#""file": "/run/secrets/key""#)
        #expect(bearer.source == .file(path: "/run/secrets/key"))
        #expect(bearer.header == "Authorization" && bearer.prefix == "Bearer " && bearer.basicUser == nil)
        #expect(bearer.ttl == nil && bearer.placeholder == nil && !bearer.allowUnpinned)
        let key = try one(
            #""header": "x-api-key", "env": "A_KEY", "placeholder": "agent-key-1", "allowUnpinned": true"#
        )
        #expect(key.source == .env(name: "A_KEY") && key.header == "x-api-key" && key.prefix.isEmpty)
        #expect(key.placeholder == "agent-key-1" && key.allowUnpinned)
        let git = try one(#""basicUser": "x-access-token", "command": ["/usr/lib/token", "-q", ""], "ttl": "45m""#)
        #expect(git.source == .command(["/usr/lib/token", "-q", ""]) && git.basicUser == "x-access-token")
        #expect(git.prefix.isEmpty && git.ttl == Milliseconds(45 * 60_000))
        #expect(try one(#""header": "authorization", "prefix": "Token ", "env": "A""#).prefix == "Token ")
        #expect(try one(#""header": "Cookie", "prefix": "session=", "env": "A""#).prefix == "session=")
        let relative = try one(#""file": "key""#)
        #expect(relative.source == .file(path: "/etc/pinproxy/key"))
    }

    @Test("a client of a token server is read")
    func oauth2() throws {
        let credential = try one(
            """
            "allowUnpinned": true, "oauth2": { "tokenURL": "https://login.example/t?x=1", "clientID": "me", "clientSecretFile": "/s",
              "scopes": ["read", "https://api.example/.default"], "secretIn": "body", "parameters": { "audience": "api", "a b": "" } }
            """
        )
        guard case .oauth2(let client) = credential.source else { return #expect(Bool(false)) }
        #expect(client.tokenURL.text == "https://login.example/t?x=1")
        #expect(client.clientID == "me" && client.clientSecretFile == "/s" && client.secretIn == .body)
        #expect(client.scopes == ["read", "https://api.example/.default"])
        #expect(client.parameters.map(\.name) == ["audience", "a b"] && client.parameters.map(\.value) == ["api", ""])
        let members = #""clientID": "me", "clientSecretFile": "/s""#
        for url in [
            "http://login.example/t", "login.example", "https://u:p@login.example/", "https://login.example/#a",
        ] {
            #expect(
                issue(#""allowUnpinned": true, "oauth2": { "tokenURL": "\#(url)", \#(members) }"#).contains(
                    "tokenURL: not an https URL"
                )
            )
        }
        let start = #""allowUnpinned": true, "oauth2": { "tokenURL": "https://login.example", \#(members), "#
        #expect(issue(start + #""scopes": ["a b"] }"#).contains("/scopes/0: not a scope"))
        #expect(
            issue(start + #""parameters": { "scope": "a" } }"#).contains("/parameters/scope: scope is made by pinproxy")
        )
        #expect(issue(start + #""parameters": { "a": 1 } }"#).contains("must be a string"))
    }

    @Test("keys for signatures are read")
    func awsSigV4() throws {
        let credential = try one(#""awsSigV4": { "region": "eu-central-1", "service": "s3", "file": "/k" }"#)
        let scope = AWSScope(region: "eu-central-1", service: "s3")
        #expect(credential.source == .awsSigV4(AWSSource(scope: scope, keys: .file(path: "/k"))))
        let command = try one(#""awsSigV4": { "region": "eu-central-1", "service": "s3", "command": ["/k"] }"#)
        #expect(command.source == .awsSigV4(AWSSource(scope: scope, keys: .command(["/k"]))))
        #expect(issue(#""awsSigV4": { "region": "eu", "service": "s3" }"#).contains("one of \"file\" and \"command\""))
        #expect(
            issue(#""awsSigV4": { "region": "e/u", "service": "s3", "file": "/k" }"#).contains("/region: not a part")
        )
        for (member, reason) in [
            (#""header": "X-A""#, "a signature is in Authorization"), (#""prefix": "A ""#, "its own form"),
            (#""basicUser": "a""#, "a signature has no user"),
        ] {
            #expect(
                issue(#"\#(member), "awsSigV4": { "region": "eu", "service": "s3", "file": "/k" }"#).contains(reason)
            )
        }
        #expect(
            read(#""c": { "awsSigV4": { "region": "eu", "service": "s3", "file": "/k", "secretAccessKey": "x" } }"#)
                .issues
                .first?.remedy.contains("keys do not belong") == true
        )
    }

    @Test(
        "an impossible value is an error at its place",
        arguments: [
            ("", "/credentials/c: the value comes from nowhere"),
            (#""env": "A", "file": "/f""#, "/credentials/c: the value comes from 2 sources"),
            (#""env": "A=B""#, "/credentials/c/env: not the name of a variable"),
            (#""env": """#, "/credentials/c/env: not the name of a variable"),
            (#""command": []"#, "/credentials/c/command: an empty list"),
            (#""command": ["token"]"#, "/credentials/c/command: the program has no absolute path"),
            (#""command": ["./token"]"#, "/credentials/c/command: the program has no absolute path"),
            (#""command": ["/token", "a\u0000b"]"#, "/credentials/c/command: an argument holds a zero byte"),
            (#""command": "/token a""#, "/credentials/c/command: must be an array, is a string"),
            (#""env": "A", "header": "Host""#, "/credentials/c/header: Host belongs to"),
            (#""env": "A", "header": "Content-Length""#, "/credentials/c/header: Content-Length belongs to"),
            (#""env": "A", "header": "transfer_encoding""#, "/credentials/c/header: transfer_encoding belongs to"),
            (#""env": "A", "header": "Connection""#, "/credentials/c/header: Connection belongs to"),
            (#""env": "A", "header": "TE""#, "/credentials/c/header: TE belongs to"),
            (#""env": "A", "header": "Proxy-Authorization""#, "/credentials/c/header: Proxy-Authorization belongs to"),
            (#""env": "A", "header": "X A""#, "/credentials/c/header: not a field name"),
            (#""env": "A", "prefix": " Bearer""#, "/credentials/c/prefix: no field begins like this"),
            (#""env": "A", "prefix": "B\r\nX: ""#, "/credentials/c/prefix: no field begins like this"),
            (#""env": "A", "basicUser": "a", "prefix": "b""#, "/credentials/c/prefix: \"basicUser\" says already"),
            (#""env": "A", "basicUser": "a:b""#, "/credentials/c/basicUser: not a user"),
            (#""env": "A", "basicUser": """#, "/credentials/c/basicUser: not a user"),
            (#""env": "A", "basicUser": "a", "header": "X-A""#, "/credentials/c/basicUser: Basic authentication is in"),
            (#""env": "A", "ttl": "0s""#, "/credentials/c/ttl: not a duration"),
            (#""env": "A", "placeholder": """#, "/credentials/c/placeholder: the placeholder is empty"),
            (#""env": "A", "placeholder": "a\nb""#, "/credentials/c/placeholder: the placeholder is empty"),
            (#""env": "A", "field": "X""#, "/credentials/c/field: unknown key"),
            (#""env": "A", "value": "s3cr3t""#, "/credentials/c/value: unknown key"),
        ]
    )
    func errors(members: String, text: String) {
        let issue = issue(members)
        #expect(issue.hasPrefix(text), "\(issue)")
        #expect(!issue.contains("s3cr3t"))
    }

    @Test("each part of a definition changes the digest, its place too")
    func digests() throws {
        let oauth = #""tokenURL": "https://a.example", "clientID": "b", "clientSecretFile": "/c""#
        var digests: Set<[UInt8]> = []
        let members = [
            #""env": "A""#, #""env": "B""#, #""file": "A""#, #""command": ["/A"]"#, #""command": ["/A", "A"]"#,
            #""env": "A", "header": "X-A""#,
            #""env": "A", "prefix": "A ""#, #""env": "A", "basicUser": "A""#, #""env": "A", "ttl": "1h""#,
            #""env": "A", "placeholder": "A""#,
            #""env": "A", "allowUnpinned": true"#, #""oauth2": { \#(oauth) }"#,
            #""oauth2": { \#(oauth), "secretIn": "body" }"#,
            #""oauth2": { \#(oauth), "scopes": ["a", "b"] }"#, #""oauth2": { \#(oauth), "scopes": ["ab"] }"#,
            #""oauth2": { \#(oauth), "parameters": { "a": "b" } }"#,
            #""awsSigV4": { "region": "a", "service": "b", "file": "/k" }"#,
            #""awsSigV4": { "region": "b", "service": "a", "file": "/k" }"#,
            #""awsSigV4": { "region": "a", "service": "b", "command": ["/k"] }"#,
        ]
        for text in members {
            digests.insert(try #require(read(#""c": { \#(text) }"#).configuration.credentials.first).digest)
        }
        digests.insert(try #require(read(#""d": { "env": "A" }"#).configuration.credentials.first).digest)
        #expect(digests.count == members.count + 1)
        #expect(try one(#""env": "A""#).digest == one(#""env": "A""#).digest)
    }

    @Test("a name has letters, digits and a few signs")
    func names() {
        for name in ["", "a b", "ä", "a/b", String(repeating: "a", count: 65)] {
            let issues = read(#""\#(name)": { "env": "A" }"#).issues
            #expect(issues.count == 1 && issues[0].message.contains("is not a name"), "\(issues)")
        }
    }

    // MARK: Rules

    private let key = #""key": { "header": "x-api-key", "env": "A_KEY", "allowUnpinned": true }"#

    private func rule(_ members: String, credentials: String? = nil, more: String = "") -> (
        issues: [String], warnings: [String]
    ) {
        let read = read(
            credentials ?? key,
            more: #""requests": { "rules": [{ "id": "r", \#(members) }] }\#(more.isEmpty ? "" : ", " + more)"#
        )
        return (
            read.issues.map { "\($0.pointer): \($0.message)" }, read.warnings.map { "\($0.pointer): \($0.message)" }
        )
    }

    @Test("a rule names one credential or several, and a host")
    func rules() throws {
        let read = read(
            key + #", "other": { "env": "B" }"#,
            more:
                #""requests": { "rules": [{ "id": "r", "then": "allow", "host": ["a.example", "*.b.example"], "user": "u", "credential": ["other", "key"] }] }"#
        )
        #expect(read.issues.isEmpty)
        let first = try #require(read.configuration.requests?.rules.first)
        #expect(first.credentials == ["other", "key"])
        #expect(
            read.configuration.requests?.rules.first?.conditions.hasSuffix("with the credential other, key") == true
        )
        let place = "/requests/rules/0/credential"
        for (members, text) in [
            (#""then": "allow", "credential": "key""#, "\(place): one credential would be sent to every host"),
            (
                #""then": "allow", "host": "*", "credential": "key""#,
                "\(place): one credential would be sent to every host"
            ),
            (
                #""then": "allow", "host": ["a.example", "*"], "credential": "key""#,
                "\(place): one credential would be sent to every host"
            ),
            (
                #""then": "deny", "host": "a.example", "credential": "key""#,
                "\(place): a rule that denies sends nothing"
            ),
            (#""then": "allow", "host": "a.example", "credential": "kex""#, "\(place): there is no credential \"kex\""),
            (#""then": "allow", "host": "a.example", "credential": []"#, "\(place): an empty list"),
            (#""then": "allow", "host": "a.example", "credential": 1"#, "\(place): must be a string, is a number"),
            (
                #""then": "allow", "host": "a.example", "credential": ["key", "key"]"#,
                "\(place)/1: the credential stands here twice"
            ),
        ] {
            let issues = rule(members).issues
            #expect(issues.count == 1 && issues.first?.hasPrefix(text) == true, "\(issues)")
        }
    }

    @Test(
        "two credentials of one rule have two fields",
        arguments: ["x_api_key", "X.Api!KEY"]
    )
    func oneField(other: String) {
        let two = #""a": { "header": "X-Api-Key", "env": "A" }, "b": { "header": "\#(other)", "env": "B" }"#
        let issues = rule(#""then": "allow", "host": "*.a.example", "credential": ["a", "b"]"#, credentials: two).issues
        #expect(
            issues == [
                #"/requests/rules/0/credential/1: "a" is in the field \#(other), too, and one request can have one of them"#
            ]
        )
    }

    @Test("a credential without a rule is a warning")
    func unused() {
        #expect(read(key).warnings.map(\.message) == [#"no rule of "requests" names the credential "key""#])
    }

    @Test("an unreadable credential is reported once")
    func unreadable() {
        let issues = rule(
            #""then": "allow", "host": "a.example", "credential": "key""#,
            credentials: #""key": { "env": "" }"#
        ).issues
        #expect(issues.count == 1 && issues[0].hasPrefix("/credentials/key/env"), "\(issues)")
    }

    @Test("traces, ids and credentials do not share a field")
    func identities() {
        let members = #""then": "allow", "host": "a.example", "credential": "key""#
        for (header, more) in [
            ("X-Api-Id", #""requestID": { "field": "x_api-ID" }"#), ("Trace-Parent", #""tracing": {}"#),
            ("traceparent", #""tracing": {}"#), ("TraceState", #""tracing": {}"#),
        ] {
            let credential = #""key": { "header": "\#(header)", "env": "HOME" }"#
            let issues = rule(members, credentials: credential, more: more).issues
            let isShared = header != "Trace-Parent"
            #expect(issues.count == (isShared ? 1 : 0) && issues.allSatisfy { $0.contains("writes") }, "\(issues)")
            #expect(rule(members, credentials: credential).issues.isEmpty)
        }
    }

    @Test("headers and credentials do not share a field; tunnels have none")
    func conflicts() {
        let members = #""then": "allow", "host": "a.example", "credential": "key""#
        for change in ["set", "add"] {
            let hosts =
                #""hosts": { "a.example": { "headers": { "request": { "\#(change)": { "X_API_Key": "v" } } } } }"#
            let issues = rule(members, more: hosts).issues
            #expect(issues.count == 1 && issues[0].contains("both write x-api-key"), "\(issues)")
        }
        let other = #""hosts": { "a.example": { "headers": { "request": { "set": { "X-Other": "v" } } } } }"#
        #expect(rule(members, more: other).issues.isEmpty)
        let tunnel = rule(members, more: #""hosts": { "a.example": { "connect": "tunnel" } }"#).issues
        #expect(tunnel.count == 1 && tunnel[0].contains("get no credential"), "\(tunnel)")
    }

    @Test("a listener without authentication is a warning, or refused if remote")
    func openListeners() {
        let members = #""then": "allow", "host": "a.example", "credential": "key""#
        func result(_ listener: String, _ members: String) -> (issues: [String], warnings: [String]) {
            let result = rule(members, more: #""listeners": [{ \#(listener) }]"#)
            return (result.issues, result.warnings.filter { $0.contains("credentials") })
        }
        let plain = result(#""address": "127.0.0.1:8080""#, members)
        #expect(plain.issues.isEmpty && plain.warnings.count == 1 && plain.warnings[0].contains("127.0.0.1:8080"))
        #expect(rule(members).warnings.contains { $0.contains("can use the credentials of this rule") })
        let remote = result(#""address": "192.0.2.1:8080", "allowRemoteClients": true"#, members)
        #expect(remote.issues.count == 1 && remote.issues[0].hasPrefix("/listeners/0: every machine"), "\(remote)")
        #expect(
            result(#""address": "192.0.2.1:8080", "allowRemoteClients": true"#, members + #", "user": "u""#).issues
                .isEmpty
        )
        #expect(result(#""unixSocket": "s""#, members).warnings.isEmpty)
        for (upstream, count) in [("https://a.example", 1), ("https://b.example", 0)] {
            let gateway = result(#""address": "127.0.0.1:1", "mode": "gateway", "upstream": "\#(upstream)""#, members)
            #expect(gateway.issues.isEmpty && gateway.warnings.count == count, "\(gateway)")
        }
    }

    // MARK: Pins

    private func load(_ files: [String: String], _ members: String) throws -> (issues: [String], warnings: [String]) {
        let folder = try ConfigurationFolder(files)
        try folder.write("pins/other.json", pinFile("other.example"))
        try folder.write(
            "config.json",
            #"{ "version": 1, "pins": "pins", "trustAnchors": { "system": false }, \#(members) }"#
        )
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        return (
            outcome.issues.map { "\($0.pointer): \($0.message)" },
            outcome.warnings.map { "\($0.pointer): \($0.message)" }.filter { $0.contains("not sent") }
        )
    }

    private func requests(_ host: String, _ more: String = "") -> String {
        #""requests": { "rules": [{ "id": "r", "then": "allow", "host": "\#(host)", "user": "u", "credential": "key"\#(more) }] }"#
    }

    @Test("a host that no pin file names needs allowUnpinned, and TLS for requests without")
    func unpinned() throws {
        let strict = #""credentials": { "key": { "env": "A_KEY" } }"#
        let loose = #""credentials": { "key": { "env": "A_KEY", "allowUnpinned": true } }"#
        let refused = try load([:], "\(strict), \(requests("a.example"))").issues
        #expect(
            refused.count == 1 && refused[0].hasPrefix("/requests/rules/0/credential: no pin file names a.example"),
            "\(refused)"
        )
        #expect(try load(["pins/a.json": pinFile("a.example")], "\(strict), \(requests("a.example"))").issues.isEmpty)
        #expect(try load([:], "\(strict), \(requests("*.a.example"))").issues.isEmpty)
        let plain = try load([:], "\(loose), \(requests("a.example"))").issues
        #expect(plain.count == 1 && plain[0].contains("http://a.example would not"), "\(plain)")
        let upgraded = #""hosts": { "a.example": { "upgrade": true } }"#
        #expect(try load([:], "\(loose), \(requests("a.example")), \(upgraded)").issues.isEmpty)
    }

    @Test("pins that are not enforced on the rule's port are warnings")
    func notHeld() throws {
        let strict = #""credentials": { "key": { "env": "A_KEY" } }"#
        let reporting = ["pins/a.json": pinFile("a.example", members: #""enforcePinning": false,"#)]
        let warned = try load(reporting, "\(strict), \(requests("a.example"))")
        #expect(warned.issues.isEmpty && warned.warnings.count == 1, "\(warned)")
        let ports = ["pins/a.json": pinFile("a.example", members: #""ports": [443],"#)]
        #expect(try load(ports, "\(strict), \(requests("a.example"))").warnings.isEmpty)
        #expect(try load(ports, "\(strict), \(requests("a.example", #", "port": [443, 8443]"#))").warnings.count == 1)
    }

    @Test("the host of a token server must be pinned, too")
    func tokenServer() throws {
        func credentials(_ more: String) -> String {
            """
            "credentials": { "key": { \(more)"oauth2": { "tokenURL": "https://login.example:8443/t", "clientID": "me",
              "clientSecretFile": "/s" } } }
            """
        }
        let refused = try load([:], credentials("")).issues
        #expect(refused.count == 1 && refused[0].contains("no pin file names login.example:8443"), "\(refused)")
        #expect(try load([:], credentials(#""allowUnpinned": true, "#)).issues.isEmpty)
        #expect(try load(["pins/a.json": pinFile("login.example")], credentials("")).issues.isEmpty)
    }

    @Test("a missing variable or file is no error of the configuration")
    func absent() throws {
        let members = #""credentials": { "a": { "file": "none" }, "b": { "env": "PINPROXY_NO_SUCH_VARIABLE" } }"#
        let folder = try ConfigurationFolder(["config.json": #"{ "version": 1, \#(members) }"#])
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        #expect(outcome.parts != nil && !outcome.record.files.contains(folder.path("none")))
        #expect(outcome.parts?.configuration.variables == ["PINPROXY_NO_SUCH_VARIABLE"])
        #expect(outcome.parts?.configuration.credentials.map(\.name) == ["a", "b"])
    }
}
