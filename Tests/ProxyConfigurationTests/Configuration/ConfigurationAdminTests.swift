// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@testable import ProxyConfiguration

@Suite("the admin listener in the configuration")
struct ConfigurationAdminTests {
    private func admin(_ members: String) -> (AdminConfiguration?, issues: [DocumentIssue]) {
        let (configuration, issues, _) = readConfiguration("{ \"version\": 1, \"admin\": { \(members) } }")
        return (configuration.admin, issues)
    }

    @Test("the listener exists only if configured")
    func none() {
        #expect(readConfiguration(#"{ "version": 1 }"#).configuration.admin == nil)
    }

    @Test("the listener has an address or Unix socket, and its own names")
    func values() throws {
        let (address, issues) = admin(#""address": "127.0.0.1:8081", "allowedHosts": ["Ops.Example.com."]"#)
        #expect(issues.isEmpty)
        #expect(address?.endpoint.description == "127.0.0.1:8081")
        #expect(address?.allowedHosts == [try Host("ops.example.com")])
        let (socket, none) = admin(#""comment": "for the kubelet", "unixSocket": "admin.sock""#)
        #expect(none.isEmpty)
        #expect(socket?.endpoint == .unixSocket(path: "/etc/pinproxy/admin.sock"))
    }

    @Test(
        "wrong settings are load errors",
        arguments: [
            (#""comment": "nothing""#, "/admin", "says not where"),
            (#""address": "127.0.0.1:1", "unixSocket": "s""#, "/admin/unixSocket", "beside"),
            (#""address": "0.0.0.0:8081""#, "/admin/address", "could see what the proxy does"),
            (#""address": "192.0.2.1:8081", "allowRemoteClients": false"#, "/admin/address", "not a loopback"),
            (#""unixSocket": "s", "allowRemoteClients": true"#, "/admin/allowRemoteClients", "no remote client"),
            (#""address": "127.0.0.1:8081", "allowedHosts": ["a b"]"#, "/admin/allowedHosts/0", "not a host"),
            (#""address": "127.0.0.1:8081", "mode": "forward""#, "/admin/mode", "unknown"),
            (#""address": "127.0.0.1:8080""#, "/admin", "listens where a listener does"),
        ]
    )
    func errors(members: String, pointer: String, says: String) {
        let (_, issues) = admin(members)
        #expect(issues.map(\.pointer) == [pointer], "\(issues)")
        #expect(issues.first?.message.contains(says) == true, "\(issues)")
    }

    @Test("other machines may ask only if configured, with a token")
    func remote() {
        let (none, issues) = admin(#""address": "0.0.0.0:8081", "allowRemoteClients": true"#)
        #expect(issues.map(\.pointer) == ["/admin/address"] && none != nil)
        #expect(issues.first?.message.contains("no token") == true)
        #expect(issues.first?.remedy.contains("tokenFile") == true)
        let (admin, whole) = admin(#""address": "[::]:8081", "allowRemoteClients": true, "tokenFile": "t""#)
        #expect(whole.isEmpty && admin?.allowRemoteClients == true && admin?.isRemote == true)
        #expect(admin?.tokenFile == "/etc/pinproxy/t")
        let document =
            #"{ "version": 1, "admin": { "address": "0.0.0.0:1", "allowRemoteClients": true, "tokenFile": "t" } }"#
        let warnings = readConfiguration(document).warnings
        #expect(warnings.contains { $0.pointer == "/admin/address" && $0.message.contains("no TLS") })
    }

    @Test(
        "the token's file has one long line of visible characters",
        arguments: [
            (String(repeating: "a", count: 32), nil), (String(repeating: "~!", count: 20) + "\r\n", nil),
            (String(repeating: "a", count: 512) + "\n", nil), (String(repeating: "a", count: 31), "31 characters"),
            ("", "0 characters"), ("\n", "0 characters"), (String(repeating: "a", count: 513), "513 characters"),
            (String(repeating: "a b", count: 20), "visible ASCII"),
            (String(repeating: "ä", count: 40), "visible ASCII"),
            (String(repeating: "a", count: 40) + "\n" + String(repeating: "b", count: 40), "visible ASCII"),
        ] as [(String, String?)]
    )
    func tokenFile(text: String, fault: String?) throws {
        let folder = try ConfigurationFolder([
            "config.json": #"{ "version": 1, "admin": { "unixSocket": "s", "tokenFile": "token" } }"#, "token": text,
        ])
        chmod(folder.path("token"), 0o600)
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        guard let fault else {
            #expect(outcome.issues.isEmpty, "\(outcome.issues)")
            #expect(outcome.parts?.adminToken == (try? AdminToken(Array(text.utf8))))
            #expect(outcome.parts?.adminToken != nil)
            return
        }
        #expect(outcome.issues.map(\.pointer) == ["/admin/tokenFile"])
        #expect(outcome.issues.first?.message.contains(fault) == true, "\(outcome.issues)")
    }

    @Test("a token is compared in constant time")
    func comparison() throws {
        let token = Array(Self.token.utf8)
        for index in token.indices {
            var other = token
            other[index] ^= 1
            #expect(!SecretDigest.areEqual(token, other))
        }
        #expect(SecretDigest.areEqual(token, token) && SecretDigest.areEqual([], []))
        #expect(!SecretDigest.areEqual(token, Array(token.dropLast())) && !SecretDigest.areEqual(token, token + [0]))
        // The time itself cannot be measured on a busy machine. What compares secrets is looked at instead: OpenSSL's
        // function, of digests whose length is fixed, and nothing else.
        let sources = Repository.folder.appendingPathComponent("Sources")
        func source(_ path: String) throws -> String {
            try String(contentsOf: sources.appendingPathComponent(path), encoding: .utf8)
        }
        let comparison = try source("ServerTrust/Digests/SecretDigest.swift")
        #expect(comparison.contains("one.count == other.count && CRYPTO_memcmp(one, other, one.count) == 0"))
        let admin = try source("ProxyConfiguration/Authentication/AdminToken.swift")
        #expect(admin.contains("SecretDigest.areEqual(digest, SecretDigest.sha256(token))"))
        #expect(admin.contains("SecretDigest.areEqual(digest, SecretDigest.sha256(password))"))
        let tokens = try source("ProxyConfiguration/Authentication/TokenFile.swift")
        #expect(tokens.contains("for entry in tokens where SecretDigest.areEqual(entry.digest, digest) {"))
    }

    @Test("a token's file that is missing or readable for all is an error")
    func tokenFileOnDisk() throws {
        let folder = try ConfigurationFolder([
            "config.json": #"{ "version": 1, "admin": { "unixSocket": "s", "tokenFile": "token" } }"#
        ])
        let path = folder.path("token")
        #expect(
            ConfigurationLoader.load(path: folder.path("config.json")).issues.map(\.pointer) == ["/admin/tokenFile"]
        )
        try Data(String(repeating: "a", count: 32).utf8).write(to: URL(fileURLWithPath: path))
        for mode in [0o644, 0o604, 0o666] {
            chmod(path, mode_t(mode))
            let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
            #expect(outcome.issues.map(\.pointer) == ["/admin/tokenFile"] && outcome.parts == nil)
            #expect(outcome.issues.first?.message == "every user of this machine can read the token")
            #expect(outcome.issues.first?.remedy == "chmod 640 \(path)")
        }
        for mode in [0o640, 0o600, 0o400] {
            chmod(path, mode_t(mode))
            let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
            #expect(outcome.issues.isEmpty && outcome.parts?.adminToken != nil)
        }
    }

    @Test("a reload reads a new token; another file needs a restart")
    func tokenAfterReload() throws {
        func parts(_ file: String, _ token: Character) throws -> PolicyParts {
            var configuration = Configuration()
            configuration.admin = AdminConfiguration(endpoint: .unixSocket(path: "/s"), tokenFile: file)
            var parts = PolicyParts(
                configuration: configuration,
                pinnedDomains: PinnedDomains(),
                trustAnchors: TrustAnchors(certificates: [])
            )
            parts.adminToken = try AdminToken(Array(String(repeating: token, count: 32).utf8))
            return parts
        }
        let running = try parts("/a", "1")
        for (file, isNew) in [("/a", true), ("/b", false)] {
            let next = try parts(file, "2")
            var kept = next
            RestartNeed.keep(running, in: &kept)
            #expect(kept.adminToken == (isNew ? next : running).adminToken)
            #expect(kept.configuration.admin?.tokenFile == "/a")
        }
    }

    @Test(
        "a token is accepted as bearer token or password alone",
        arguments: [
            ("Authorization: Bearer \(token)", true), ("authorization: bearer  \(token)", true),
            ("Authorization: Basic \(Base64.encode(Array("ops:\(token)".utf8)))", true),
            ("Authorization: Basic \(Base64.encode(Array(":\(token)".utf8)))", true),
            ("Authorization: Bearer \(token)x", false), ("Authorization: Bearer", false), ("Accept: \(token)", false),
            ("Authorization: Basic \(Base64.encode(Array("\(token):".utf8)))", false),
            ("Authorization: \(token)", false), ("Proxy-Authorization: Bearer \(token)", false),
            ("Authorization: Bearer \(token)\r\nAuthorization: Bearer \(token)", false),
        ]
    )
    func presented(fields: String, isAccepted: Bool) throws {
        var parser = RequestParser()
        var head = RequestHead()
        _ = parser.parse(Array("GET / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\r\n".utf8).span, into: &head)
        let admits = try AdminToken(Array(Self.token.utf8)).admits(head.fields)
        #expect(admits == isAccepted)
    }

    private static let token = "0123456789abcdef0123456789ABCDEF"

    @Test("no resolve and no upstream leads to it")
    func unreachable() {
        let (_, issues, _) = readConfiguration(
            #"""
            { "version": 1, "admin": { "address": "127.0.0.1:8081" },
              "listeners": [{ "address": "127.0.0.1:1", "mode": "gateway", "upstream": "https://127.0.0.1:8081" }],
              "hosts": { "a.example": { "resolve": "127.0.0.1:8081" } } }
            """#
        )
        #expect(Set(issues.map(\.pointer)) == ["/listeners/0/upstream", "/hosts/a.example/resolve"])
        for issue in issues { #expect(issue.message.contains("own listeners"), "\(issue)") }
    }

    @Test("the listener is found in a configuration with errors elsewhere")
    func lookUp() throws {
        let folder = try ConfigurationFolder([
            "config.json": #"""
            { "version": 1, "pins": "nowhere", "xyzzy": 1, "admin": { "unixSocket": "admin.sock" } }
            """#,
            "none.json": #"{ "version": 1 }"#,
            "wrong.json": #"{ "version": 1, "admin": { "address": "127.0.0.1" } }"#,
            "broken.json": #"{ "admin": "#,
        ])
        let found = try AdminConfiguration.lookUp(path: folder.path("config.json"))
        #expect(found.endpoint == .unixSocket(path: folder.path("admin.sock")))
        func failure(_ name: String) -> AdminConfiguration.LookupFailure? {
            do throws(AdminConfiguration.LookupFailure) {
                _ = try AdminConfiguration.lookUp(path: folder.path(name))
                return nil
            } catch {
                return error
            }
        }
        guard case .missingFile? = failure("missing.json") else {
            Issue.record("a file that is not there")
            return
        }
        guard case .absent? = failure("none.json") else {
            Issue.record("a file without admin")
            return
        }
        guard case .issues(let wrong)? = failure("wrong.json"), case .issues(let broken)? = failure("broken.json")
        else {
            Issue.record("files with errors")
            return
        }
        #expect(wrong.map(\.pointer) == ["/admin/address"])
        #expect(broken.count == 1)
    }
}
