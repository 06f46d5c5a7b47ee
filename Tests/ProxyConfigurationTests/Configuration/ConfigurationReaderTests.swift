// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import SessionCore
import StrictJSON
import TestSupport
import Testing

@testable import ProxyConfiguration

/// The result of reading a text as /etc/pinproxy/config.json.
func readConfiguration(
    _ text: String
) -> (configuration: Configuration, issues: [DocumentIssue], warnings: [DocumentIssue]) {
    let reader = DocumentReader(JSONDocument(text: text, file: "/etc/pinproxy/config.json"))
    var configurationReader = ConfigurationReader(reader)
    configurationReader.read()
    return (configurationReader.configuration, reader.issues, reader.warnings)
}

@Suite("the configuration is read")
struct ConfigurationReaderTests {
    @Test("a list replaces the usual names of secrets, an object changes them")
    func secretParameters() throws {
        func names(_ redact: String) throws -> [String] {
            let (configuration, issues, _) = readConfiguration("{ \"version\": 1, \"log\": { \(redact) } }")
            #expect(issues.isEmpty, "\(issues)")
            return configuration.log.redact
        }
        let usual = SecretParameters.usual
        #expect(usual.count == 20 && Set(usual).count == 20)
        #expect(try names("") == usual)
        #expect(try names(#""redact": []"#) == [])
        #expect(try names(#""redact": ["a", "b"]"#) == ["a", "b"])
        #expect(try names(#""redact": {}"#) == usual)
        #expect(try names(#""redact": { "comment": "ours", "add": ["tok"] }"#) == usual + ["tok"])
        // Both spellings are one name.
        #expect(
            try names(#""redact": { "remove": ["CODE", "api-key"] }"#)
                == usual.filter { !["code", "api_key", "apikey"].contains($0) }
        )
        #expect(try names(#""redact": { "add": ["tok"], "remove": ["tok"] }"#) == usual)
    }

    @Test("a misplaced key of hosts is reported with its place")
    func misplacedKeys() throws {
        let schema = Repository.folder.appendingPathComponent("docs/schema/config.schema.json")
        let object = try #require(try JSONSerialization.jsonObject(with: Data(contentsOf: schema)) as? [String: Any])
        let definitions = try #require(object["$defs"] as? [String: [String: Any]])
        func keys(_ value: Any?) throws -> Set<String> { Set(try #require(value as? [String: Any]).keys) }
        let top = try keys(object["properties"])
        let defaults = try keys(definitions["defaults"]?["properties"]).subtracting(top)
        let hosts = try keys(definitions["host"]?["properties"]).subtracting(top).subtracting(defaults)
        #expect(ConfigurationReader.keysOfDefaults == defaults && ConfigurationReader.keysOfHosts == hosts)
        for key in defaults {
            let issue = try #require(readConfiguration("{ \"version\": 1, \"\(key)\": {} }").issues.first)
            #expect(issue.pointer == "/\(key)" && issue.message == "unknown key \"\(key)\"")
            #expect(issue.remedy == "move it into \"defaults\", or into a host's entry in \"hosts\"")
        }
        for key in hosts {
            let issue = try #require(readConfiguration("{ \"version\": 1, \"\(key)\": {} }").issues.first)
            #expect(issue.remedy == "move it into a host's entry in \"hosts\"")
        }
        let misspelt = readConfiguration(#"{ "version": 1, "listners": [] }"#).issues
        #expect(misspelt.first?.remedy == "did you mean \"listeners\"?")
    }

    private func read(_ text: String, sourceLocation: SourceLocation = #_sourceLocation) throws -> Configuration {
        let (configuration, issues, _) = readConfiguration(text)
        try #require(issues.isEmpty, "\(issues)", sourceLocation: sourceLocation)
        return configuration
    }

    @Test("the smallest configuration has every default")
    func defaults() throws {
        let configuration = try read(#"{ "version": 1 }"#)
        #expect(configuration.workers == 0)
        #expect(configuration.listeners.map(\.endpoint.description) == ["127.0.0.1:8080"])
        #expect(configuration.listeners[0].mode == .forward)
        #expect(configuration.listeners[0].allowHosts.patterns == [.any])
        #expect(configuration.pins == nil)
        #expect(configuration.trustAnchors == TrustAnchorsConfiguration())
        #expect(configuration.trustAnchors.system)
        #expect(configuration.unpinnedHosts == .allow)
        #expect(configuration.resolver == .dns)
        #expect(configuration.log.tasks == .stdout)
        #expect(configuration.log.level == .info)
        #expect(
            configuration.access.denyAddresses.map(\.description)
                == ["self", "loopback", "link-local", "metadata", "multicast", "unspecified"]
        )
        #expect(configuration.access.denyHosts.isEmpty)
        #expect(configuration.access.allowHosts == [.any])
        #expect(configuration.limits.headBytes == 65_536)
        #expect(configuration.limits.headFields == 100)
        #expect(configuration.limits.targetBytes == 8192)
        #expect(!configuration.limits.strictHost)
        #expect(configuration.limits.responseHeadBytes == 262_144)
        #expect(configuration.limits.responseHeadFields == 500)
        #expect(configuration.limits.connections == 10_000)
        #expect(configuration.limits.connectionsPerHost == 256)
        #expect(configuration.limits.requestBodyBytes == nil)
        #expect((64 << 20...1 << 30).contains(configuration.limits.heldBytes))
        let timeouts = configuration.defaults.timeouts
        #expect(timeouts.connect.count == 10_000)
        #expect(timeouts.head.count == 10_000)
        #expect(timeouts.firstByte.count == 60_000)
        #expect(timeouts.stall.count == 300_000)
        #expect(timeouts.idle.count == 60_000)
        #expect(timeouts.total == nil)
        #expect(timeouts.queue.count == 10_000)
        #expect(timeouts.body.count == 60_000)
        #expect(timeouts.drain.count == 30_000)
        #expect(configuration.defaults.connectionsPerHost == nil)
        #expect(configuration.defaults.rewriteUpgraded)
        #expect(!configuration.defaults.upgrade)
        #expect(configuration.defaults.httpVersion == .http11)
        #expect(configuration.defaults.via == .on)
        #expect(configuration.hosts.isEmpty)
    }

    @Test("every key is read")
    func everyKey() throws {
        let configuration = try read(
            #"""
            {
              "$schema": "x", "comment": "c", "version": 1, "workers": 3,
              "listeners": [
                { "address": "[::1]:0", "mode": "forward", "http2": true, "allowHosts": ["*.example.com", "a.test"] },
                { "unixSocket": "run/proxy.sock", "comment": "c" },
                { "address": "0.0.0.0:9001", "mode": "gateway", "upstream": "https://API.Example.com:8443/",
                  "allowedHosts": ["api.local", "192.0.2.1"], "allowRemoteClients": true },
                { "address": "127.0.0.1:9002", "mode": "gateway", "upstream": "https://[2001:db8::1]" },
                { "address": "127.0.0.1:15001", "mode": "transparent", "allowHosts": ["a.test"] },
                { "address": "[::1]:15001", "mode": "transparent", "originalDestination": "ignore" }
              ],
              "pins": "pins",
              "trustAnchors": { "system": false, "files": ["ca.pem", "/abs/ca.der"] },
              "unpinnedHosts": "deny",
              "resolver": "system",
              "log": { "tasks": "log/tasks.json", "level": "debug", "redact": ["token", "key"] },
              "access": { "denyAddresses": ["private", "198.51.100.0/24"], "denyHosts": ["bad.test"],
                          "allowHosts": ["*.test", "*.example.com", "192.0.2.1", "2001:db8::1"],
                          "connectPorts": [443] },
              "limits": { "headBytes": "32KB", "headFields": 50, "targetBytes": "16KB", "strictHost": true,
                          "connections": 5, "connectionsPerHost": 6, "requestBodyBytes": "1MB",
                          "responseHeadBytes": "16MB", "responseHeadFields": 10000, "heldBytes": "48MB" },
              "defaults": { "connect": "deny", "redirects": { "policy": "return" }, "rewriteUpgraded": false,
                            "via": "off", "timeouts": { "connect": "1s", "head": "2s", "firstByte": "3s", "stall": "4s",
                                          "idle": "5s", "total": "6s", "drain": "7s", "queue": "12s", "body": "13s" },
                            "connectionsPerHost": 7 },
              "hosts": {
                "Example.COM.": { "includeSubdomains": true, "upgrade": true, "httpVersion": "2",
                                  "resolve": "192.0.2.9:8443", "connect": "deny", "redirects": { "policy": "return" },
                                  "timeouts": { "connect": "8s", "firstByte": "9s", "stall": "10s", "total": "11s",
                                                "queue": "14s" }, "connectionsPerHost": 8 },
                "192.0.2.1": { "rewriteUpgraded": true, "via": "on" },
                "[2001:DB8::1]": {}
              }
            }
            """#
        )
        #expect(configuration.workers == 3)
        let listeners = configuration.listeners
        #expect(
            listeners.map(\.endpoint.description)
                == [
                    "[::1]:0", "/etc/pinproxy/run/proxy.sock", "0.0.0.0:9001", "127.0.0.1:9002", "127.0.0.1:15001",
                    "[::1]:15001",
                ]
        )
        #expect(listeners.map(\.mode) == [.forward, .forward, .gateway, .gateway, .transparent, .transparent])
        #expect(listeners.map(\.originalDestination) == [.verify, .verify, .verify, .verify, .verify, .ignore])
        #expect(listeners[0].allowHosts.patterns.map(\.description) == ["*.example.com", "a.test"])
        #expect(listeners[2].upstream == ListenerConfiguration.Upstream(host: try Host("api.example.com"), port: 8443))
        #expect(listeners[2].upstream?.exemption == nil)
        #expect(listeners[2].allowedHosts.map(\.description) == ["api.local", "192.0.2.1"])
        #expect(listeners[2].allowRemoteClients)
        #expect(listeners[3].upstream?.exemption?.description == "[2001:db8::1]:443")
        #expect(configuration.pins == "/etc/pinproxy/pins")
        #expect(!configuration.trustAnchors.system)
        #expect(configuration.trustAnchors.files == ["/etc/pinproxy/ca.pem", "/abs/ca.der"])
        #expect(configuration.unpinnedHosts == .deny)
        #expect(configuration.resolver == .system)
        #expect(configuration.log.tasks == .file(path: "/etc/pinproxy/log/tasks.json"))
        #expect(configuration.log.level == .debug)
        #expect(configuration.log.redact == ["token", "key"])
        #expect(configuration.access.denyAddresses.map(\.description) == ["private", "198.51.100.0/24"])
        #expect(configuration.access.denyHosts.map(\.description) == ["bad.test"])
        #expect(configuration.access.allowHosts.count == 4)
        #expect(configuration.limits.headBytes == 32_768)
        #expect(configuration.limits.headFields == 50)
        #expect(configuration.limits.targetBytes == 16_384)
        #expect(configuration.limits.strictHost)
        #expect(configuration.limits.responseHeadBytes == 16 << 20)
        #expect(configuration.limits.responseHeadFields == 10_000)
        #expect(configuration.limits.connections == 5)
        #expect(configuration.limits.connectionsPerHost == 6)
        #expect(configuration.limits.requestBodyBytes == 1_048_576)
        #expect(configuration.limits.heldBytes == 48 << 20)
        let common = configuration.defaults.timeouts
        #expect(
            [common.connect, common.head, common.firstByte, common.stall, common.idle, common.total, common.drain]
                .map { $0?.count } == [1000, 2000, 3000, 4000, 5000, 6000, 7000]
        )
        #expect(common.queue.count == 12_000)
        #expect(common.body.count == 13_000)
        #expect(configuration.defaults.connectionsPerHost == 7)
        let hosts = configuration.hosts
        #expect(hosts.map { $0.host?.description } == ["example.com", "192.0.2.1", "2001:db8::1"])
        #expect(hosts[0].includeSubdomains)
        #expect(hosts[0].upgrade)
        #expect(hosts[0].httpVersion == .http2)
        #expect(hosts.map(\.via) == [.off, .on, .off])
        #expect(hosts[0].resolve?.description == "192.0.2.9:8443")
        #expect(!hosts[0].rewriteUpgraded, "an entry is laid over defaults")
        let own = hosts[0].timeouts
        #expect(
            [own.connect, own.head, own.firstByte, own.stall, own.idle, own.total, own.drain]
                .map { $0?.count } == [8000, 2000, 9000, 10_000, 5000, 11_000, 7000]
        )
        #expect(own.queue.count == 14_000)
        #expect(own.body.count == 13_000)
        #expect(hosts.map(\.connectionsPerHost) == [8, 7, 7])
        #expect(hosts[1].rewriteUpgraded)
        #expect(hosts[1].timeouts == common)
        #expect(!hosts[2].upgrade)
    }

    @Test(
        "the task log's keywords are no files",
        arguments: [
            ("stdout", LogConfiguration.Destination.stdout), ("stderr", .stderr), ("off", .off),
            ("./off", .file(path: "/etc/pinproxy/./off")),
        ]
    )
    func logDestinations(text: String, destination: LogConfiguration.Destination) throws {
        #expect(try read(#"{ "version": 1, "log": { "tasks": "\#(text)" } }"#).log.tasks == destination)
    }

    @Test("defaults apply to hosts, wherever they stand in the file")
    func defaultsAfterHosts() throws {
        let configuration = try read(
            #"{ "version": 1, "hosts": { "a.test": {} }, "defaults": { "timeouts": { "connect": "3s" } } }"#
        )
        #expect(configuration.hosts[0].timeouts.connect.count == 3000)
    }

    @Test("listeners without collision may be many")
    func listenersBesideEachOther() throws {
        let configuration = try read(
            #"""
            { "version": 1, "listeners": [
              { "address": "127.0.0.1:8080" }, { "address": "[::1]:8080" }, { "address": "127.0.0.2:8080" },
              { "address": "127.0.0.1:0" }, { "address": "127.0.0.1:0" }, { "unixSocket": "/a" }, { "unixSocket": "/b" }
            ] }
            """#
        )
        #expect(configuration.listeners.count == 7)
    }

    @Test("a lack of all certificate authorities is a warning")
    func noAnchors() {
        let (_, issues, warnings) = readConfiguration(#"{ "version": 1, "trustAnchors": { "system": false } }"#)
        #expect(issues.isEmpty)
        #expect(warnings.map(\.pointer) == ["/trustAnchors"])
    }
}
