// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@testable import ProxyConfiguration

@Suite("loading the configuration and what it names")
struct ConfigurationLoaderTests {
    /// Without the system's anchors, so that the tests do not depend on the machine's bundle.
    private static let noSystem = #""trustAnchors": { "system": false }"#

    @Test("a good configuration with pins gives the parts of a policy")
    func good() throws {
        let folder = try ConfigurationFolder([
            "config.json": """
            { "version": 1, "pins": "pins", \(Self.noSystem),
              "hosts": { "api.test": { "resolve": "127.0.0.1:8443", "includeSubdomains": true },
                         "x.api.test": { "httpVersion": "2" } } }
            """,
            "pins/api.json": pinFile("api.test"),
            "pins/README": "no pin file",
        ])
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        #expect(outcome.issues.isEmpty, "\(outcome.issues)")
        let parts = try #require(outcome.parts)
        #expect(parts.configuration.pins == folder.path("pins"))
        #expect(parts.pinnedDomains.names(try Host("api.test")))
        #expect(!parts.pinnedDomains.names(try Host("x.api.test")))
        let hosts = parts.configuration.hosts
        #expect(hosts.map(\.host) == [try Host("api.test"), try Host("x.api.test")])
        #expect(hosts.map(\.includeSubdomains) == [true, false])
        #expect(hosts.map(\.resolve?.port) == [8443, nil])
        #expect(hosts.last?.httpVersion == .http2)
    }

    @Test("a missing configuration differs from a bad one")
    func missing() throws {
        let folder = try ConfigurationFolder(["bad.json": "{"])
        let missing = ConfigurationLoader.load(path: folder.path("config.json"))
        #expect(missing.parts == nil)
        #expect(missing.configurationIsMissing)
        #expect(missing.issues.map(\.file) == [folder.path("config.json")])
        let bad = ConfigurationLoader.load(path: folder.path("bad.json"))
        #expect(bad.parts == nil)
        #expect(!bad.configurationIsMissing)
        #expect(!bad.issues.isEmpty)
    }

    @Test("a pin folder that is missing or a file is an error")
    func pinFolder() throws {
        let folder = try ConfigurationFolder([
            "a.json": #"{ "version": 1, "pins": "nowhere" }"#,
            "b.json": #"{ "version": 1, "pins": "a.json" }"#,
        ])
        for name in ["a.json", "b.json"] {
            let outcome = ConfigurationLoader.load(path: folder.path(name))
            #expect(outcome.parts == nil)
            #expect(outcome.issues.map(\.pointer) == ["/pins"], "\(outcome.issues)")
        }
    }

    @Test("a missing pin folder is a warning, an empty one an error")
    func noPins() throws {
        let folder = try ConfigurationFolder([
            "none.json": #"{ "version": 1 }"#,
            "empty.json": #"{ "version": 1, "pins": "pins" }"#,
        ])
        try folder.makeFolder("pins")
        let none = ConfigurationLoader.load(path: folder.path("none.json"))
        #expect(none.parts != nil)
        #expect(none.warnings.map(\.pointer) == [""])
        #expect(none.warnings.allSatisfy { $0.message.contains("no host is pinned") })
        let empty = ConfigurationLoader.load(path: folder.path("empty.json"))
        #expect(empty.parts == nil)
        #expect(empty.issues.map(\.file) == [folder.path("pins")])
    }

    @Test("errors of all files come in one run")
    func everything() throws {
        let folder = try ConfigurationFolder([
            "config.json": #"""
            {
              "version": 1,
              "hosts": { "a.test": { "upgrade": 1 } },
              "workers": -1,
              "pins": "pins",
              "trustAnchors": { "files": ["missing.pem", "config.json"] }
            }
            """#,
            "pins/a.json":
                #"{ "version": 1, "pinnedDomains": { "a.test": { "pinningMode": "publicKey", "pins": [] } } }"#,
            "pins/b.json": "{",
        ])
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        #expect(outcome.parts == nil)
        let own = outcome.issues.filter { $0.file == folder.path("config.json") }.map(\.pointer)
        #expect(own == ["/hosts/a.test/upgrade", "/workers", "/trustAnchors/files/0", "/trustAnchors/files/1"])
        #expect(outcome.issues.contains { $0.file == folder.path("pins/a.json") })
        #expect(outcome.issues.contains { $0.file == folder.path("pins/b.json") })
        #expect(outcome.issues.allSatisfy { !$0.remedy.isEmpty })
    }

    @Test("a setting that a pin file forbids is an error")
    func againstPins() throws {
        let folder = try ConfigurationFolder([
            "upgrade.json": #"{ "version": 1, "pins": "pins", "hosts": { "API.test.": { "upgrade": false } } }"#,
            "below.json": #"{ "version": 1, "pins": "pins", "hosts": { "x.api.test": { "upgrade": false } } }"#,
            "tunnel.json": #"{ "version": 1, "pins": "pins", "hosts": { "api.test": { "connect": "tunnel" } } }"#,
            "fine.json": #"{ "version": 1, "pins": "pins", "hosts": { "b.test": { "upgrade": false } } }"#,
            "pins/api.json": pinFile("api.test", members: #" "includeSubdomains": true,"#),
        ])
        func issues(_ name: String) -> [DocumentIssue] {
            ConfigurationLoader.load(path: folder.path(name)).issues.filter { $0.file == folder.path(name) }
        }
        #expect(issues("upgrade.json").map(\.pointer) == ["/hosts/API.test./upgrade"])
        #expect(issues("below.json").map(\.pointer) == ["/hosts/x.api.test/upgrade"])
        #expect(issues("tunnel.json").contains { $0.message.contains("never tunnelled") })
        #expect(issues("fine.json").isEmpty)
    }

    @Test("a gateway to an unpinned host is an error when unpinned hosts are denied")
    func gatewayToUnpinned() throws {
        func text(_ host: String) -> String {
            #"""
            { "version": 1, "pins": "pins", "unpinnedHosts": "deny", "listeners": [
              { "address": "127.0.0.1:1", "mode": "gateway", "upstream": "https://\#(host)" }] }
            """#
        }
        let folder = try ConfigurationFolder([
            "pinned.json": text("api.test"), "unpinned.json": text("b.test"), "pins/api.json": pinFile("api.test"),
            "port.json": text("ports.test:8443"), "other-port.json": text("ports.test:8444"),
            "pins/ports.json": pinFile("ports.test", members: "\"ports\": [8443],"),
        ])
        func pointers(_ name: String) -> [String] {
            ConfigurationLoader.load(path: folder.path(name)).issues
                .filter { $0.file == folder.path(name) }.map(\.pointer)
        }
        #expect(pointers("pinned.json").isEmpty)
        #expect(pointers("unpinned.json") == ["/listeners/0/upstream"])
        #expect(pointers("port.json").isEmpty)
        #expect(pointers("other-port.json") == ["/listeners/0/upstream"])
    }

    @Test("international names are the same in every form, in files and requests alike")
    func internationalNames() throws {
        let folder = try ConfigurationFolder([
            "config.json": #"""
            { "version": 1, "pins": "pins", "access": { "denyHosts": ["*.M\u00DCNCHEN.test"] },
              "hosts": { "b\u00FCcher.test": { "upgrade": true } } }
            """#,
            "twice.json":
                #"{ "version": 1, "pins": "pins", "hosts": { "B\u00DCCHER.test": {}, "xn--bcher-kva.TEST.": {} } }"#,
            "pins/a.json": pinFile("b\u{FC}cher.test"),
        ])
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        #expect(outcome.issues.isEmpty, "\(outcome.issues)")
        let parts = try #require(outcome.parts)
        let host = try Host("XN--BCHER-KVA.test")
        #expect(parts.configuration.hosts.contains { $0.host == host && $0.upgrade })
        #expect(parts.pinnedDomains.names(host))
        #expect(AccessRules(parts.configuration.access).evaluate(try Host("a.xn--mnchen-3ya.test")) == .denied(rule: 0))
        let twice = ConfigurationLoader.load(path: folder.path("twice.json"))
        #expect(twice.issues.map(\.pointer) == ["/hosts/xn--bcher-kva.TEST."], "\(twice.issues)")
    }

    @Test("the example in the repository loads as it is")
    func example() throws {
        let repository = Repository.folder
        let outcome = ConfigurationLoader.load(path: repository.appendingPathComponent("config.example.json").path)
        #expect(outcome.issues.isEmpty, "\(outcome.issues)")
        #expect(outcome.warnings.isEmpty, "\(outcome.warnings)")
        let parts = try #require(outcome.parts)
        #expect(parts.configuration.listeners.map(\.endpoint.description) == ["127.0.0.1:8080"])
        #expect(parts.pinnedDomains.names(try Host("letsencrypt.org")))
        #expect(parts.pinnedDomains.names(try Host("www.letsencrypt.org")))
        #expect(parts.pinnedDomains.names(try Host("api.example.com")))
        #expect(!parts.pinnedDomains.names(try Host("example.org")))
    }
}
