// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@testable import ProxyConfiguration

@Suite("What the configuration requires of clients")
struct ClientConfigurationTests {
    private static let pki = try! TestPKI()
    private static let hash =
        "$6$rounds=1000$saltsalt$LAV5VE5Y7w1d73x1mFNspYWUpazfmwv2SoepNXNKJ/otop/Zok96Hr8Q13LEv0DRY/x8v0/crpIjl8NJSAqXV/"

    /// A folder with good files of every kind.
    private func folder(_ members: String) throws -> ConfigurationFolder {
        let server = try Self.pki.server("localhost")
        let folder = try ConfigurationFolder([
            "own.pem": server.chainPEM,
            "own.key": server.privateKeyPEM,
            "other.key": try Self.pki.server("localhost").privateKeyPEM,
            "clients.pem": Self.pki.root.certificate.pem,
            "users": "alice:\(Self.hash)\n",
            "plain": "alice:secret\n",
            "tokens": "ci:\(String(repeating: "0", count: 64))\n",
            "config.json": "{ \"version\": 1, \(members) }",
        ])
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: folder.path("own.key"))
        return folder
    }

    private func load(_ members: String) throws -> ConfigurationLoader.Outcome {
        let folder = try folder(members)
        return withExtendedLifetime(folder) { ConfigurationLoader.load(path: folder.path("config.json")) }
    }

    private static func listener(_ members: String, address: String = "127.0.0.1:0") -> String {
        #""listeners": [{ "address": "\#(address)", \#(members) }]"#
    }

    private static let tls = #""tls": { "certificate": "own.pem", "key": "own.key" }"#
    private static let tlsWithCA = #""tls": { "certificate": "own.pem", "key": "own.key", "clientCA": "clients.pem" }"#

    @Test("good files make a context and credentials")
    func loads() throws {
        let outcome = try load(
            Self.listener(Self.tls)
                + #", "authentication": { "basic": { "file": "users" }, "bearer": { "file": "tokens" } }"#
        )
        #expect(outcome.issues.isEmpty, "\(outcome.issues)")
        let security = try #require(outcome.parts.map { $0.security(of: $0.configuration.listeners[0]) })
        guard case .context = security.tls, case .credentials(let credentials) = security.authentication else {
            Issue.record("\(security.tls), \(security.authentication)")
            return
        }
        #expect(credentials.challenges == [.basic, .bearer])
        let watched = Set(outcome.record.files.map { $0.split(separator: "/").last.map(String.init) ?? "" })
        #expect(watched.isSuperset(of: ["own.pem", "own.key", "users", "tokens"]))
    }

    @Test("by default nothing is required")
    func demandsNothing() throws {
        let outcome = try load(#""comment": "x""#)
        let security = try #require(outcome.parts.map { $0.security(of: $0.configuration.listeners[0]) })
        guard case .none = security.tls, case .none = security.authentication else {
            Issue.record("\(security.tls), \(security.authentication)")
            return
        }
    }

    @Test(
        "bad files and contradictions are refused at their places",
        arguments: [
            (listener(#""tls": { "certificate": "own.pem" }"#), "/listeners/0/tls", "\"key\" is missing"),
            (
                listener(#""tls": { "certificate": "gone.pem", "key": "own.key" }"#), "/listeners/0/tls/certificate",
                "No such"
            ),
            (
                listener(#""tls": { "certificate": "own.pem", "key": "other.key" }"#), "/listeners/0/tls/key",
                "belong together"
            ),
            (
                listener(#""tls": { "certificate": "own.pem", "key": "users" }"#), "/listeners/0/tls/key",
                "no single private key"
            ),
            (
                listener(#""tls": { "certificate": "own.key", "key": "own.key" }"#), "/listeners/0/tls/certificate",
                "private key"
            ),
            (
                listener(#""tls": { "certificate": "own.pem", "key": "own.key", "clientCA": "users" }"#),
                "/listeners/0/tls/clientCA", "certificate"
            ),
            (
                listener(#""tls": { "certificate": "own.pem", "key": "own.key", "crlFiles": ["clients.crl"] }"#),
                "/listeners/0/tls/crlFiles", "no client certificates"
            ),
            (
                listener(#"\#(tlsWithCA.dropLast(2)), "crlFiles": [] }"#), "/listeners/0/tls/crlFiles",
                "checks no certificate"
            ),
            (
                listener(#"\#(tlsWithCA.dropLast(2)), "crlFiles": ["users"] }"#), "/listeners/0/tls/crlFiles/0",
                "not a revocation list"
            ),
            (#""tracing": { "sample": 1.5 }"#, "/tracing/sample", "not a number from 0 to 1"),
            (#""tracing": { "otlp": "127.0.0.1:4318" }"#, "/tracing/otlp", "no http or https URL"),
            (#""tracing": { "otlp": "http://c.example/?a=b" }"#, "/tracing/otlp", "without query"),
            (#""tracing": { "headers": { "a": "b" } }"#, "/tracing/headers", "there is none"),
            (
                #""tracing": { "otlp": "http://c.example", "headers": { "Content-Type": "b" } }"#,
                "/tracing/headers/Content-Type", "that of the spans"
            ),
            (
                #""tracing": { "otlp": "http://c.example", "headers": { "Content.Encoding": "b" } }"#,
                "/tracing/headers/Content.Encoding", "that of the spans"
            ),
            (
                #""tracing": { "otlp": "http://c.example", "headers": { "Authorization": { "file": "gone" } } }"#,
                "/tracing/headers/Authorization/file", "No such"
            ),
            (
                #""tracing": { "otlp": "http://c.example", "headers": { "Host": "b" } }"#, "/tracing/headers/Host",
                "belongs to"
            ),
            (#""tracing": { "sample": "1" }"#, "/tracing/sample", "not a number from 0 to 1"),
            (#""requestID": {}"#, "/requestID", "missing"),
            (#""requestID": { "field": "Cookie" }"#, "/requestID/field", "ends in"),
            (#""requestID": { "field": "Last-Event-ID" }"#, "/requestID/field", "no other meaning"),
            (#""requestID": { "field": "Mcp_Session-Id" }"#, "/requestID/field", "no other meaning"),
            (#""requestID": { "field": "Sec-Own-Id" }"#, "/requestID/field", "no other meaning"),
            (#""requestID": { "field": "Last.Event.Id" }"#, "/requestID/field", "no other meaning"),
            (#""requestID": { "field": "X-Covid" }"#, "/requestID/field", "ends in"),
            (#""requestID": { "field": "Proxy-Id" }"#, "/requestID/field", "belongs to"),
            (#""crls": { "every": "59s" }"#, "/crls/every", "less than a minute"),
            (#""crls": { "folder": "users" }"#, "/crls/folder", "not a folder"),
            (#""authentication": {}"#, "/authentication", "no way"),
            (#""authentication": { "clientCertificates": false }"#, "/authentication", "no way"),
            (#""authentication": { "basic": { "file": "plain" } }"#, "/authentication/basic/file", "line 1"),
            (#""authentication": { "basic": { "file": "gone" } }"#, "/authentication/basic/file", "No such"),
            (#""authentication": { "basic": {} }"#, "/authentication/basic", "missing"),
            (#""authentication": { "bearer": { "file": "users" } }"#, "/authentication/bearer/file", "SHA-256"),
            (#""authentication": { "unixPeers": { "uids": [0] } }"#, "/authentication", "no client could"),
            (
                listener(#""authentication": { "unixPeers": {}, "basic": { "file": "users" } }"#),
                "/listeners/0/authentication/unixPeers", "nobody"
            ),
            (#""authentication": { "localUsers": {} }"#, "/authentication/localUsers", "nobody"),
            (#""authentication": { "localUsers": { "uids": [] } }"#, "/authentication/localUsers", "nobody"),
            (#""authentication": { "localUsers": { "gids": [1] } }"#, "/authentication/localUsers/gids", "unknown"),
            (#""authentication": { "localUsers": { "uids": [-1] } }"#, "/authentication/localUsers/uids/0", "from 0"),
            (
                #""listeners": [{ "unixSocket": "s", "authentication": { "localUsers": { "uids": [1] } } }]"#,
                "/listeners/0", "no client could"
            ),
            (
                #""listeners": [{ "unixSocket": "s", "authentication": { "localUsers": { "uids": [1] }, "basic": { "file": "users" } } }]"#,
                "/listeners/0", "say unixPeers"
            ),
            (listener(#""authentication": true"#), "/listeners/0/authentication", "names no way"),
            (
                listener(#""authentication": { "basic": { "file": "users" }, "unixPeers": { "uids": [0] } }"#),
                "/listeners/0", "of no use"
            ),
            (
                listener(#""authentication": { "basic": { "file": "users" }, "clientCertificates": true }, \#(tls)"#),
                "/listeners/0", "of no use"
            ),
            (
                listener(
                    #""allowRemoteClients": true, "authentication": { "basic": { "file": "users" } }"#,
                    address: "0.0.0.0:0"
                ),
                "/listeners/0", "in the clear"
            ),
        ]
    )
    func refuses(members: String, pointer: String, says: String) throws {
        let outcome = try load(members)
        #expect(outcome.parts == nil)
        #expect(outcome.issues.map(\.pointer).contains(pointer), "\(outcome.issues)")
        #expect(outcome.issues.contains { "\($0)".contains(says) }, "\(outcome.issues)")
    }

    @Test(
        "open listeners and badly kept keys are warnings",
        arguments: [
            (listener(#""allowRemoteClients": true"#, address: "0.0.0.0:0"), "clients prove nothing", true),
            (listener(#""allowRemoteClients": true, \#(tls)"#, address: "0.0.0.0:0"), "clients prove nothing", true),
            (
                listener(#""allowRemoteClients": true, \#(tlsWithCA)"#, address: "0.0.0.0:0"), "clients prove nothing",
                false
            ),
            (
                listener(
                    #""allowRemoteClients": true, "allowCleartextCredentials": true, "authentication": { "basic": { "file": "users" } }"#,
                    address: "0.0.0.0:0"
                ),
                "clients prove nothing", false
            ),
            (listener(tls), "every user", false),
            (listener(#""tls": { "certificate": "loose.pem", "key": "loose.key" }"#), "every user", true),
        ]
    )
    func warns(members: String, says: String, isWarnedOf: Bool) throws {
        let folder = try folder(members)
        let loose = try Self.pki.server("localhost")
        try folder.write("loose.pem", loose.chainPEM)
        try folder.write("loose.key", loose.privateKeyPEM)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: folder.path("loose.key"))
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        #expect(outcome.issues.isEmpty, "\(outcome.issues)")
        #expect(outcome.warnings.contains { "\($0)".contains(says) } == isWarnedOf, "\(outcome.warnings)")
    }

    @Test("an expired certificate is a warning, a weak one an error")
    func judgesCertificate() throws {
        let folder = try folder(Self.listener(Self.tls))
        let expired = try Self.pki.server(
            CertificateBuilder.server(hosts: ["localhost"], validity: 1_577_836_800..<1_600_000_000)
        )
        try folder.write("own.pem", expired.chainPEM)
        try folder.write("own.key", expired.privateKeyPEM)
        let warned = ConfigurationLoader.load(path: folder.path("config.json"))
        #expect(warned.warnings.contains { $0.message.contains("expired") }, "\(warned.warnings)")
        let weak = try Self.pki.server("localhost", key: .rsa(bits: 1024))
        try folder.write("own.pem", weak.chainPEM)
        try folder.write("own.key", weak.privateKeyPEM)
        let refused = ConfigurationLoader.load(path: folder.path("config.json"))
        #expect(refused.issues.contains { $0.message.contains("OpenSSL refuses") }, "\(refused.issues)")
    }
}
