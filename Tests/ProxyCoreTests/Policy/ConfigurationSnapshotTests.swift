// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

/// Reads a text as a configuration file, without the files that it names.
func readConfiguration(_ text: String) -> (configuration: Configuration, issues: [DocumentIssue]) {
    let document = DocumentReader(JSONDocument(text: text, file: ""))
    var reader = ConfigurationReader(document)
    reader.read()
    return (reader.configuration, document.issues)
}

@Suite("policy snapshots")
struct ConfigurationSnapshotTests {
    private func snapshot(_ text: String, pinning pins: [String: SecurityPolicy.Configuration] = [:]) throws
        -> PolicySnapshot
    {
        let (configuration, issues) = readConfiguration(text)
        try #require(issues.isEmpty, "\(issues)")
        var pinned = PinnedDomains()
        for (name, var settings) in pins {
            let host = try Host(name)
            settings.domain = host
            pinned = try #require(pinned.adding(try SecurityPolicy(settings), host: host, source: "test"))
        }
        let parts = PolicyParts(
            configuration: configuration,
            pinnedDomains: pinned,
            trustAnchors: TrustAnchors(certificates: [])
        )
        return PolicySnapshot(parts, generation: 1)
    }

    private func twoPins() throws -> SecurityPolicy.Configuration {
        var settings = SecurityPolicy.Configuration()
        settings.pinningMode = .publicKey
        settings.pins = [
            Pin(try #require(PublicKeyPin(digest: [UInt8](repeating: 1, count: 32)))),
            Pin(try #require(PublicKeyPin(digest: [UInt8](repeating: 2, count: 32))), isBackup: true),
        ]
        settings.expiration = CalendarDate("2031-05-06")
        return settings
    }

    @Test("the most specific entry decides as a whole, and defaults otherwise")
    func mostSpecificEntry() throws {
        let snapshot = try snapshot(
            #"""
            { "version": 1, "hosts": {
              "api.test": { "resolve": "127.0.0.1:8443", "includeSubdomains": true },
              "x.api.test": { "httpVersion": "2" },
              "own.test": { "upgrade": true } } }
            """#
        )
        func policy(_ name: String) throws -> HostPolicy { snapshot.policy(for: try Host(name)) }
        #expect(try policy("api.test").configuration.resolve?.port == 8443)
        #expect(try policy("a.b.api.test").configuration.resolve?.port == 8443)
        #expect(try policy("x.api.test").configuration.resolve == nil)
        #expect(try policy("x.api.test").configuration.httpVersion == .http2)
        #expect(try policy("y.x.api.test").configuration.resolve?.port == 8443)
        #expect(try policy("own.test").configuration.upgrade)
        #expect(try policy("a.own.test") === snapshot.defaults)
        #expect(try policy("evilapi.test") === snapshot.defaults)
        let host = try Host("y.api.test")
        let found = snapshot.policy(bytes: host.bytes.span, isName: true)
        #expect(found.configuration.resolve?.port == 8443)
    }

    @Test("a host is pinned when a pin file names it, in whatever mode")
    func pinnedHosts() throws {
        let snapshot = try snapshot(
            #"{ "version": 1 }"#,
            pinning: ["a.test": twoPins(), "b.test": SecurityPolicy.Configuration()]
        )
        #expect(snapshot.isNamed(try Host("a.test")))
        #expect(snapshot.isNamed(try Host("b.test")))
        #expect(!snapshot.isNamed(try Host("c.test")))
        #expect(!snapshot.isNamed(try Host("x.a.test")))
    }

    @Test("fixed ports of listeners are denied at once, free ones when known")
    func ownListeners() throws {
        let snapshot = try snapshot(
            #"{ "version": 1, "listeners": [{ "address": "127.0.0.1:8080" }, { "address": "127.0.0.1:0" }] }"#
        )
        let loopback = try #require(IPAddress("127.0.0.1"))
        #expect(snapshot.parts.ownListeners == [AddressAndPort(loopback, 8080)])
        #expect(snapshot.access.evaluate(loopback, port: 8080) == .deniedOwnListener)
        let bound = AddressAndPort(loopback, 40_123)
        var parts = snapshot.parts
        parts.ownListeners.append(bound)
        let running = PolicySnapshot(parts, generation: 1)
        #expect(running.access.evaluate(loopback, port: 40_123, exempting: bound) == .deniedOwnListener)
        #expect(snapshot.access.evaluate(loopback, port: 40_123, exempting: bound) == .allowed)
    }

    @Test("an addition in memory is in the new snapshot alone")
    func changedInMemory() throws {
        let snapshot = try snapshot(#"{ "version": 1, "defaults": { "timeouts": { "connect": "3s" } } }"#)
        let host = try Host("demo.pinproxy.test")
        let policy = try SecurityPolicy(try twoPins())
        let pinned = try #require(snapshot.pinnedDomains.adding(policy, host: host, source: "demo"))
        var parts = snapshot.parts
        var entry = HostConfiguration(host: host, over: parts.configuration.defaults)
        entry.httpVersion = .http2
        parts.configuration.hosts.append(entry)
        parts.pinnedDomains = pinned
        let changed = PolicySnapshot(parts, generation: 2)
        #expect(changed.policy(for: host).configuration.httpVersion == .http2)
        #expect(changed.policy(for: host).configuration.timeouts.connect.count == 3000)
        #expect(changed.isNamed(host))
        #expect(!snapshot.isNamed(host))
        #expect(snapshot.policy(for: host) === snapshot.defaults)
    }

    @Test("the effective policy is shown host by host, sorted and in columns")
    func effectivePolicy() throws {
        var reported = try twoPins()
        reported.enforcePinning = false
        reported.expiration = nil
        var stapled = SecurityPolicy.Configuration()
        stapled.requiresStaple = true
        let snapshot = try snapshot(
            #"""
            { "version": 1,
              "listeners": [{ "address": "127.0.0.1:1", "mode": "gateway", "upstream": "https://b.test" }],
              "admin": { "address": "127.0.0.1:8081" },
              "unpinnedHosts": "deny", "resolver": "system", "access": { "denyHosts": ["z.test"], "denyAddresses": ["private"] },
              "defaults": { "timeouts": { "connect": "2s" } },
              "hosts": {
                "z.test": { "upgrade": true },
                "b.test": {
                  "resolve": "127.0.0.1:8443", "httpVersion": "2", "timeouts": { "connect": "3s" }, "connectionsPerHost": 7,
                  "via": "off"
                }
              }
            }
            """#,
            pinning: ["b.test": twoPins(), "a.test": reported, "n.test": stapled]
        )
        let timeouts = "queue 10s, head 10s, firstByte 1m, body 1m, stall 5m, idle 1m, total none, drain 30s"
        let limits = [
            "headBytes 64KB", "headFields 100", "targetBytes 8KB", "strictHost false", "responseHeadBytes 256KB",
            "responseHeadFields 500",
            "connections 10000", "connectionsPerHost 256", "requestBodyBytes none", "redirectBodyBytes 10MB",
            "heldBytes \(ByteCount.describe(LimitsConfiguration.usualHeldBytes))",
        ].joined(separator: ", ")
        let expected = """
            listeners
              gateway  127.0.0.1:1 to https://b.test:443
              admin    127.0.0.1:8081

            process
              workers            one for each core
              task log           standard output, text on a terminal, else json
              events             standard error, from level info on
              masked in the log  parameters with the usual names of secrets
              limits             \(limits)
              pins               no folder

            all hosts
              names             looked up by the system's resolver
              unpinned hosts    denied
              anchors           system
              allowed hosts     *
              denied hosts      z.test
              denied addresses  private
              CONNECT           denied, with the alternatives in the response
              httpVersion       1.1
              timeouts          connect 2s, \(timeouts)

            a.test
              upgrade            always: a pin file names the host
              pinning            publicKey, only reported
              pins               2, of them backups: 1
              expires            never
              anchors            system
              includeSubdomains  no
              httpVersion        1.1

            b.test
              upgrade             always: a pin file names the host
              pinning             publicKey, enforced
              pins                2, of them backups: 1
              expires             2031-05-06 is the last day, then denied
              anchors             system
              includeSubdomains   no
              resolve             127.0.0.1:8443
              httpVersion         2 by ALPN, else 1.1
              Via                 not added, unless the request has one already
              timeouts            connect 3s, \(timeouts)
              connectionsPerHost  7

            n.test
              upgrade            always: a pin file names the host
              pinning            none: chain and host are checked
              revocation         a staple is required
              anchors            system
              includeSubdomains  no
              httpVersion        1.1

            z.test
              upgrade            yes
              pinning            not pinned: denied
              anchors            system
              includeSubdomains  no
              httpVersion        1.1
              access             denied: access.denyHosts has "z.test"

            """
        #expect(EffectivePolicy(snapshot).description == expected)
    }

    @Test("the effective policy tells where the shared cache is, without its secrets")
    func sharedCache() throws {
        let snapshot = try snapshot(
            #"""
            { "version": 1, "cache": { "redis": { "url": "rediss://a.test,b.test:7001", "cluster": true, "username": "u",
              "keyFile": "k", "passwordFile": "p" } } }
            """#
        )
        let rows = EffectivePolicy(snapshot).sections.flatMap(\.rows).filter { $0.label == "cache in Redis" }
        #expect(
            rows.map(\.text) == [
                "rediss://a.test:6379,b.test:7001, a cluster, keys begin with pinproxy:, bodies up to 1MB, timeout 5ms"
            ]
        )
    }

    @Test("the effective policy tells the rules of the cache")
    func cacheRules() throws {
        let snapshot = try snapshot(
            #"""
            { "version": 1,
              "cache": { "shared": false, "disk": { "path": "/var/cache/p", "size": "2GB" } },
              "hosts": { "a.test": { "cache": { "requestPolicy": "returnCacheDataElseLoad", "rules": [
                { "path": "/v1/*", "status": 200, "contentType": "a/b", "then": "store", "ttl": "5m",
                  "removeHeaders": ["Set-Cookie"], "setHeaders": { "X-A": "hidden" }, "maxBytes": "1MB" },
                { "path": "/live/*", "method": "GET", "requestPolicy": "reloadIgnoringLocalCacheData" },
                { "path": "/q", "key": { "ignoreParameters": ["utm_*"], "sortParameters": true, "headers": ["X-T"] } },
                { "path": "/s", "bypass": { "headers": ["X-P"], "cookies": ["s_*"] } },
                { "method": "GET", "ignoreDirectives": ["no-cache", "max-age"] },
                { "path": "/g", "grace": { "staleWhileRevalidate": "30s", "staleIfError": "1h" } },
                { "then": "skip" } ] } },
                "b.test": {} } }
            """#
        )
        let sections = EffectivePolicy(snapshot).sections
        func text(_ title: String, _ label: String) -> String? {
            sections.first { $0.title == title }?.rows.first { $0.label == label }?.text
        }
        #expect(text("all hosts", "cache") == "for one user, 64MB in memory, 2GB in /var/cache/p, patience 5s")
        #expect(
            text("a.test", "cache rules") == "reloadIgnoringLocalCacheData GET /live/*; else returnCacheDataElseLoad; "
                + "key /q without parameter utm_* with sorted parameters with x-t; "
                + "bypass /s with x-p with cookie s_*; ignore no-cache max-age GET; "
                + "grace /g staleWhileRevalidate 30s staleIfError 1h; "
                + "store /v1/* 200 a/b for 5m without Set-Cookie with X-A up to 1MB; skip"
        )
        #expect(text("b.test", "cache rules") == nil)
    }

    @Test("the effective policy shows a credential's source without arguments")
    func credential() throws {
        let text = EffectivePolicy(
            try snapshot(
                #"""
                { "version": 1,
                  "credentials": { "key": { "basicUser": "git", "command": ["/bin/token", "s3cr3t"], "ttl": "1h",
                    "placeholder": "p", "allowUnpinned": true } },
                  "requests": { "rules": [{ "id": "r", "then": "allow", "host": "*.a.example", "credential": "key" }] } }
                """#
            )
        ).description
        #expect(
            text.contains(
                "key  Basic with the user git from the command /bin/token, for 1h, for clients with its placeholder, unpinned hosts too, "
                    + "in the rules r"
            )
        )
        #expect(!text.contains("s3cr3t"))
    }

    @Test("the effective policy shows no value of a field from a file")
    func fieldFromFile() throws {
        let folder = try ConfigurationFolder([
            "token": "s3cret",
            "config.json": #"""
            { "version": 1, "trustAnchors": { "system": false }, "hosts": { "a.test": { "upgrade": true,
              "headers": { "request": { "set": { "Authorization": { "file": "token", "prefix": "Bearer " } } } } } } }
            """#,
        ])
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        let snapshot = try #require(outcome.makeSnapshot())
        #expect(snapshot.policy(for: try Host("a.test")).hooks?.givesCredentials == true)
        let text = EffectivePolicy(snapshot).description
        #expect(text.contains("Authorization") && !text.contains("s3cret"))
    }
}
