// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import StrictJSON
import Testing

@testable import ProxyConfiguration

/// A text, and the one issue that it must bring: where, and a part of message or remedy.
struct LoadError: CustomTestStringConvertible, Sendable {
    var text: String
    var pointer: String
    var says: String

    init(_ members: String, at pointer: String, says: String) {
        text = "{ \"version\": 1, \(members) }"
        self.pointer = pointer
        self.says = says
    }

    init(document: String, at pointer: String, says: String) {
        text = document
        self.pointer = pointer
        self.says = says
    }

    init(listener: String, at pointer: String = "/listeners/0", says: String) {
        self.init("\"listeners\": [{ \(listener) }]", at: pointer, says: says)
    }

    init(host: String, at member: String, says: String) {
        self.init("\"hosts\": { \"a.test\": { \(host) } }", at: "/hosts/a.test\(member)", says: says)
    }

    var testDescription: String { text }
}

@Suite("load errors of the configuration")
struct ConfigurationErrorTests {
    private func expectOneIssue(_ error: LoadError) {
        let (_, issues, _) = readConfiguration(error.text)
        #expect(issues.count == 1, "\(issues)")
        for issue in issues {
            #expect(issue.file == "/etc/pinproxy/config.json")
            #expect(issue.pointer == error.pointer)
            #expect((issue.message + "; " + issue.remedy).contains(error.says), "\(issue)")
            #expect(!issue.message.isEmpty)
            #expect(!issue.remedy.isEmpty)
            #expect(issue.line != nil)
        }
    }

    @Test(
        "wrong shapes of the document are errors",
        arguments: [
            LoadError(document: "[]", at: "", says: "must be an object"),
            LoadError(document: "{}", at: "", says: "\"version\" is missing"),
            LoadError(
                document: #"{ "version": 2 }"#,
                at: "/version",
                says: "version 2 of the configuration is not known"
            ),
            LoadError(document: #"{ "version": "1" }"#, at: "/version", says: "whole number"),
            LoadError(document: #"{ "version": 1, "version": 1 }"#, at: "/version", says: "duplicate"),
            LoadError(#""wrkers": 1"#, at: "/wrkers", says: "did you mean \"workers\""),
            LoadError(#""pinz": "x""#, at: "/pinz", says: "did you mean \"pins\""),
            LoadError(#""workers": -1"#, at: "/workers", says: "out of range"),
            LoadError(#""workers": 257"#, at: "/workers", says: "out of range"),
            LoadError(#""workers": 1.5"#, at: "/workers", says: "no whole number"),
            LoadError(#""workers": "2""#, at: "/workers", says: "must be a whole number"),
            LoadError(#""pins": """#, at: "/pins", says: "not a path"),
            LoadError(#""pins": 1"#, at: "/pins", says: "must be a string"),
            LoadError(#""comment": 1"#, at: "/comment", says: "must be a string"),
            LoadError(#""$schema": 1"#, at: "/$schema", says: "must be a string"),
            LoadError(#""unpinnedHosts": "dny""#, at: "/unpinnedHosts", says: "did you mean \"deny\""),
            LoadError(#""resolver": "systm""#, at: "/resolver", says: "did you mean \"system\""),
            LoadError(#""hosts": []"#, at: "/hosts", says: "must be an object"),
        ]
    )
    func document(error: LoadError) { expectOneIssue(error) }

    @Test(
        "wrong listeners are errors",
        arguments: [
            LoadError(#""listeners": {}"#, at: "/listeners", says: "must be an array"),
            LoadError(#""listeners": []"#, at: "/listeners", says: "no listener"),
            LoadError(#""listeners": ["127.0.0.1:1"]"#, at: "/listeners/0", says: "must be an object"),
            LoadError(listener: #""mode": "forward""#, says: "says not where"),
            LoadError(
                listener: #""address": "127.0.0.1:1", "unixSocket": "/s""#,
                at: "/listeners/0/unixSocket",
                says: "two listeners"
            ),
            LoadError(listener: #""address": "127.0.0.1""#, at: "/listeners/0/address", says: "port is missing"),
            LoadError(listener: #""address": "127.0.0.1:65536""#, at: "/listeners/0/address", says: "0 to 65535"),
            LoadError(listener: #""address": "::1:80""#, at: "/listeners/0/address", says: "brackets"),
            LoadError(listener: #""address": "localhost:80""#, at: "/listeners/0/address", says: "not looked up"),
            LoadError(listener: #""address": "127.1:80""#, at: "/listeners/0/address", says: "not an IP address"),
            LoadError(
                listener: #""address": "[::ffff:127.0.0.1]:80""#,
                at: "/listeners/0/address",
                says: "write \"127.0.0.1:80\""
            ),
            LoadError(listener: #""address": "0.0.0.0:80""#, at: "/listeners/0/address", says: "allowRemoteClients"),
            LoadError(listener: #""address": "[::]:80""#, at: "/listeners/0/address", says: "allowRemoteClients"),
            LoadError(listener: #""address": "192.0.2.1:80""#, at: "/listeners/0/address", says: "allowRemoteClients"),
            LoadError(
                listener: #""address": "192.0.2.1:80", "allowRemoteClients": false"#,
                at: "/listeners/0/address",
                says: "not a loopback address"
            ),
            LoadError(
                listener: #""unixSocket": "/s", "allowRemoteClients": true"#,
                at: "/listeners/0/allowRemoteClients",
                says: "Unix socket"
            ),
            LoadError(listener: #""unixSocket": """#, at: "/listeners/0/unixSocket", says: "not a path"),
            LoadError(
                listener: "\"unixSocket\": \"/\(String(repeating: "s", count: 107))\"",
                at: "/listeners/0/unixSocket",
                says: "shorter path"
            ),
            LoadError(
                listener: #""address": "127.0.0.1:1", "mode": "gatewai""#,
                at: "/listeners/0/mode",
                says: "did you mean \"gateway\""
            ),
            LoadError(listener: #""address": "127.0.0.1:1", "mod": "x""#, at: "/listeners/0/mod", says: "\"mode\""),
            LoadError(listener: #""address": "127.0.0.1:1", "mode": "gateway""#, says: "gateway without upstream"),
            LoadError(
                listener: #""address": "127.0.0.1:1", "upstream": "https://a.test""#,
                at: "/listeners/0/upstream",
                says: "forward listener has no upstream"
            ),
            LoadError(
                listener: #""address": "127.0.0.1:1", "allowedHosts": ["a.test"]"#,
                at: "/listeners/0/allowedHosts",
                says: "only a gateway"
            ),
            LoadError(
                listener:
                    #""address": "127.0.0.1:1", "mode": "gateway", "upstream": "https://a.test", "allowHosts": ["*"]"#,
                at: "/listeners/0/allowHosts",
                says: "allowedHosts"
            ),
            LoadError(
                listener: #""address": "127.0.0.1:1", "mode": "transparent", "upstream": "https://a.test""#,
                at: "/listeners/0/upstream",
                says: "clients name the host"
            ),
            LoadError(
                listener: #""address": "127.0.0.1:1", "mode": "transparent", "allowedHosts": ["a.test"]"#,
                at: "/listeners/0/allowedHosts",
                says: "only a gateway"
            ),
            LoadError(
                listener: #""unixSocket": "/s", "mode": "transparent""#,
                at: "/listeners/0/unixSocket",
                says: "an address and a port"
            ),
            LoadError(
                listener:
                    #""address": "127.0.0.1:1", "mode": "transparent", "authentication": { "localUsers": { "uids": [0] } }"#,
                at: "/listeners/0",
                says: "cannot say who it is"
            ),
            LoadError(
                #""listeners": [{ "address": "127.0.0.1:1", "mode": "transparent" }], "authentication": { "localUsers": { "uids": [0] } }"#,
                at: "/listeners/0",
                says: "\"authentication\": false"
            ),
            LoadError(
                listener: #""address": "127.0.0.1:1", "mode": "transparent", "allowCleartextCredentials": true"#,
                at: "/listeners/0/allowCleartextCredentials",
                says: "no credentials are sent"
            ),
            LoadError(
                listener: #""address": "127.0.0.1:1", "mode": "transparent", "originalDestination": "trust""#,
                at: "/listeners/0/originalDestination",
                says: "\"verify\", \"ignore\""
            ),
            LoadError(
                listener: #""address": "127.0.0.1:1", "originalDestination": "verify""#,
                at: "/listeners/0/originalDestination",
                says: "of a transparent listener"
            ),
            LoadError(
                listener: #""address": "127.0.0.1:1", "allowHosts": []"#,
                at: "/listeners/0/allowHosts",
                says: "no host at all"
            ),
            LoadError(
                listener: #""address": "127.0.0.1:1", "allowHosts": ["a.*.test"]"#,
                at: "/listeners/0/allowHosts/0",
                says: "pattern"
            ),
            LoadError(
                #""listeners": [{ "address": "127.0.0.1:1" }, { "address": "127.0.0.1:1" }]"#,
                at: "/listeners/1",
                says: "/listeners/0"
            ),
            LoadError(
                #""listeners": [{ "address": "0.0.0.0:1", "allowRemoteClients": true }, { "address": "127.0.0.1:1" }]"#,
                at: "/listeners/1",
                says: "/listeners/0"
            ),
            LoadError(
                #""listeners": [{ "unixSocket": "s" }, { "unixSocket": "/etc/pinproxy/s" }]"#,
                at: "/listeners/1",
                says: "change its path"
            ),
        ]
    )
    func listeners(error: LoadError) { expectOneIssue(error) }

    @Test(
        "wrong upstreams are errors",
        arguments: [
            ("http://a.test", "over TLS only"), ("ftp://a.test", "over TLS only"), ("a.test", "not an https URL"),
            ("https:a.test", "not an https URL"), ("https://", "not a host"), ("https://a.test/v1", "more than scheme"),
            ("https://a.test?x", "more than scheme"), ("https://a.test#x", "more than scheme"),
            ("https://u:p@a.test", "more than scheme"), ("https://a.test:0", "not a port"),
            ("https://a.test:", "not a port"), ("https://a.test:65536", "not a port"),
            ("https://a..test", "not a host"),
            ("https://2130706433", "not a host"), ("https://[::1", "not a host"), ("https://*.test", "pattern"),
        ]
    )
    func upstreams(url: String, says: String) {
        expectOneIssue(
            LoadError(
                listener: "\"address\": \"127.0.0.1:1\", \"mode\": \"gateway\", \"upstream\": \"\(url)\"",
                at: "/listeners/0/upstream",
                says: says
            )
        )
    }

    @Test(
        "wrong trust anchors, log, access and limits are errors",
        arguments: [
            LoadError(#""trustAnchors": { "system": "yes" }"#, at: "/trustAnchors/system", says: "true or false"),
            LoadError(#""trustAnchors": { "files": "ca.pem" }"#, at: "/trustAnchors/files", says: "an array"),
            LoadError(#""trustAnchors": { "files": [""] }"#, at: "/trustAnchors/files/0", says: "not a path"),
            LoadError(#""trustAnchors": { "file": [] }"#, at: "/trustAnchors/file", says: "did you mean \"files\""),
            LoadError(#""log": { "tasks": "" }"#, at: "/log/tasks", says: "not a path"),
            LoadError(#""log": { "tasks": false }"#, at: "/log/tasks", says: "must be a string"),
            LoadError(#""log": { "level": "verbose" }"#, at: "/log/level", says: "\"debug\""),
            LoadError(#""log": { "redact": [""] }"#, at: "/log/redact/0", says: "names no query parameter"),
            LoadError(#""log": { "redact": [1] }"#, at: "/log/redact/0", says: "must be a string"),
            LoadError(#""log": { "redact": "key" }"#, at: "/log/redact", says: "must be an array"),
            LoadError(#""log": { "redact": { "ad": [] } }"#, at: "/log/redact/ad", says: "did you mean \"add\""),
            LoadError(
                #""log": { "redact": { "add": ["--"] } }"#,
                at: "/log/redact/add/0",
                says: "names no query parameter"
            ),
            LoadError(
                #""log": { "redact": { "remove": ["tokens"] } }"#,
                at: "/log/redact/remove/0",
                says: "is not in the list of usual names"
            ),
            LoadError(
                #""requests": { "rules": [{ "id": "a", "path": "/a b", "then": "allow" }] }"#,
                at: "/requests/rules/0/path",
                says: "it has a space; write \"%20\" in its place"
            ),
            LoadError(
                #""requests": { "rules": [{ "id": "a", "path": "/ü", "then": "allow" }] }"#,
                at: "/requests/rules/0/path",
                says: "it has \"ü\"; write \"%C3%BC\" in its place"
            ),
            LoadError(
                #""requests": { "rules": [{ "id": "a", "path": "/a?b", "then": "allow" }] }"#,
                at: "/requests/rules/0/path",
                says: "it has \"?\"; write one as in"
            ),
            LoadError(
                #""requests": { "rules": [{ "id": "a", "path": "a", "then": "allow" }] }"#,
                at: "/requests/rules/0/path",
                says: "it does not begin with \"/\""
            ),
            LoadError(
                #""requests": { "rules": [{ "id": "a", "path": "/a%3Fb", "then": "allow" }] }"#,
                at: "/requests/rules/0/path",
                says: "an encoded question mark"
            ),
            LoadError(
                #""requests": { "rules": [{ "id": "a", "path": "/*a*b*c*d*e*f*g*h*", "then": "allow" }] }"#,
                at: "/requests/rules/0/path",
                says: "more than 8 stars"
            ),
            LoadError(#""requests": { "rules": [] }"#, at: "/requests/rules", says: "no request finds a rule"),
            LoadError(
                #""requests": { "rules": [{ "id": "a", "method": [], "then": "allow" }] }"#,
                at: "/requests/rules/0/method",
                says: "nothing would match"
            ),
            LoadError(
                #""requests": { "rules": [{ "id": "a", "host": "https://a.test", "then": "allow" }] }"#,
                at: "/requests/rules/0/host",
                says: "without scheme"
            ),
            LoadError(
                #""requests": { "rules": [{ "id": "a", "host": ["a.test:443"], "then": "allow" }] }"#,
                at: "/requests/rules/0/host/0",
                says: "without scheme"
            ),
            LoadError(
                #""requests": { "rules": [{ "id": "a", "method": "get", "then": "allow" }] }"#,
                at: "/requests/rules/0/method",
                says: "write \"GET\""
            ),
            LoadError(#""log": { "lvl": "info" }"#, at: "/log/lvl", says: "unknown key"),
            LoadError(
                #""access": { "denyAddresses": ["loopbak"] }"#,
                at: "/access/denyAddresses/0",
                says: "did you mean \"loopback\""
            ),
            LoadError(
                #""access": { "denyAddresses": ["10.0.0.0/33"] }"#,
                at: "/access/denyAddresses/0",
                says: "prefix length"
            ),
            LoadError(
                #""access": { "denyAddresses": ["10.0.0.1/8"] }"#,
                at: "/access/denyAddresses/0",
                says: "\"10.0.0.0/8\""
            ),
            LoadError(#""access": { "denyAddresses": ["10.0.0"] }"#, at: "/access/denyAddresses/0", says: "block"),
            LoadError(
                #""access": { "denyAddresses": ["::ffff:10.0.0.0/104"] }"#,
                at: "/access/denyAddresses/0",
                says: "IPv4 block"
            ),
            LoadError(#""access": { "denyHosts": ["a.test:80"] }"#, at: "/access/denyHosts/0", says: "without scheme"),
            LoadError(#""access": { "denyHosts": ["http://a"] }"#, at: "/access/denyHosts/0", says: "without scheme"),
            LoadError(#""access": { "denyHosts": ["*.192.0.2.1"] }"#, at: "/access/denyHosts/0", says: "IP address"),
            LoadError(#""access": { "denyHosts": ["*x.test"] }"#, at: "/access/denyHosts/0", says: "pattern"),
            LoadError(#""access": { "denyHosts": [".test"] }"#, at: "/access/denyHosts/0", says: "empty label"),
            LoadError(#""access": { "allowHosts": [] }"#, at: "/access/allowHosts", says: "no host at all"),
            LoadError(#""access": { "allowHosts": "*" }"#, at: "/access/allowHosts", says: "an array"),
            LoadError(#""access": { "denyHost": [] }"#, at: "/access/denyHost", says: "did you mean \"denyHosts\""),
            LoadError(#""limits": { "headBytes": 65536 }"#, at: "/limits/headBytes", says: "must be a string"),
            LoadError(#""limits": { "headBytes": "64kb" }"#, at: "/limits/headBytes", says: "not a size"),
            LoadError(#""limits": { "headBytes": "3KB" }"#, at: "/limits/headBytes", says: "from 4KB to 1MB"),
            LoadError(#""limits": { "headBytes": "2MB" }"#, at: "/limits/headBytes", says: "from 4KB to 1MB"),
            LoadError(
                #""limits": { "responseHeadBytes": "17MB" }"#,
                at: "/limits/responseHeadBytes",
                says: "from 4KB to 16MB"
            ),
            LoadError(
                #""limits": { "responseHeadFields": 9 }"#,
                at: "/limits/responseHeadFields",
                says: "out of range"
            ),
            LoadError(#""limits": { "connections": 0 }"#, at: "/limits/connections", says: "out of range"),
            LoadError(#""limits": { "connectionsPerHost": 0 }"#, at: "/limits/connectionsPerHost", says: "range"),
            LoadError(#""limits": { "requestBodyBytes": "0KB" }"#, at: "/limits/requestBodyBytes", says: "not a size"),
            LoadError(#""limits": { "bodyBytes": "1KB" }"#, at: "/limits/bodyBytes", says: "unknown key"),
        ]
    )
    func sections(error: LoadError) { expectOneIssue(error) }

    @Test(
        "wrong defaults and hosts are errors",
        arguments: [
            LoadError(
                #""defaults": { "timeouts": { "connect": "10" } }"#,
                at: "/defaults/timeouts/connect",
                says: "not a duration"
            ),
            LoadError(
                #""defaults": { "timeouts": { "connect": 10 } }"#,
                at: "/defaults/timeouts/connect",
                says: "a string"
            ),
            LoadError(
                #""defaults": { "timeouts": { "stall": "0s" } }"#,
                at: "/defaults/timeouts/stall",
                says: "not a duration"
            ),
            LoadError(
                #""defaults": { "timeouts": { "idel": "1s" } }"#,
                at: "/defaults/timeouts/idel",
                says: "did you mean \"idle\""
            ),
            LoadError(#""defaults": { "upgrade": true }"#, at: "/defaults/upgrade", says: "said for a host"),
            LoadError(#""defaults": { "resolve": "127.0.0.1:1" }"#, at: "/defaults/resolve", says: "said for a host"),
            LoadError(#""defaults": { "rewriteUpgraded": 1 }"#, at: "/defaults/rewriteUpgraded", says: "true or false"),
            LoadError(#""hosts": { "a.test": 1 }"#, at: "/hosts/a.test", says: "must be an object"),
            LoadError(#""hosts": { "": {} }"#, at: "/hosts/", says: "not a host"),
            LoadError(#""hosts": { "*.a.test": {} }"#, at: "/hosts/*.a.test", says: "includeSubdomains"),
            LoadError(#""hosts": { "a.test:443": {} }"#, at: "/hosts/a.test:443", says: "without scheme, port"),
            LoadError(#""hosts": { "https://a.test": {} }"#, at: "/hosts/https:~1~1a.test", says: "without scheme"),
            LoadError(#""hosts": { "127.1": {} }"#, at: "/hosts/127.1", says: "legacy form"),
            LoadError(#""hosts": { "a.test": {}, "A.TEST": {} }"#, at: "/hosts/A.TEST", says: "/hosts/a.test"),
            LoadError(#""hosts": { "a.test": {}, "a.test.": {} }"#, at: "/hosts/a.test.", says: "already"),
            LoadError(#""hosts": { "::1": {}, "[0:0::1]": {} }"#, at: "/hosts/[0:0::1]", says: "already"),
            LoadError(#""hosts": { "a.test": {}, "a.test": {} }"#, at: "/hosts/a.test", says: "duplicate"),
            LoadError(
                #""hosts": { "192.0.2.1": { "includeSubdomains": true } }"#,
                at: "/hosts/192.0.2.1/includeSubdomains",
                says: "below an IP"
            ),
            LoadError(host: #""upgrade": "yes""#, at: "/upgrade", says: "true or false"),
            LoadError(host: #""httpVersion": 2"#, at: "/httpVersion", says: "must be a string"),
            LoadError(host: #""via": false"#, at: "/via", says: "must be a string"),
            LoadError(#""defaults": { "via": "no" }"#, at: "/defaults/via", says: "\"off\""),
            LoadError(host: #""tlsProfile": "old""#, at: "/tlsProfile", says: "\"compatible\""),
            LoadError(#""defaults": { "tlsProfile": true }"#, at: "/defaults/tlsProfile", says: "must be a string"),
            LoadError(host: #""tlsServerName": "*.b.example""#, at: "/tlsServerName", says: "pattern"),
            LoadError(#""defaults": { "tlsServerName": "b" }"#, at: "/defaults/tlsServerName", says: "said for a host"),
            LoadError(host: #""browsers": "yes""#, at: "/browsers", says: "true or false"),
            LoadError(#""defaults": { "browsers": true }"#, at: "/defaults/browsers", says: "said for a host"),
            LoadError(host: #""httpVersion": "3""#, at: "/httpVersion", says: "\"1.1\""),
            LoadError(host: #""resolve": "127.0.0.1""#, at: "/resolve", says: "port is missing"),
            LoadError(host: #""resolve": "127.0.0.1:0""#, at: "/resolve", says: "port 0"),
            LoadError(host: #""resolve": "origin.test:443""#, at: "/resolve", says: "not looked up"),
            LoadError(host: #""resolve": "127.0.0.1:8080""#, at: "/resolve", says: "own listeners"),
            LoadError(host: #""timeouts": { "head": "1s" }"#, at: "/timeouts/head", says: "put it into defaults"),
            LoadError(host: #""timeouts": { "idle": "1s" }"#, at: "/timeouts/idle", says: "put it into defaults"),
            LoadError(host: #""timeouts": { "drain": "1s" }"#, at: "/timeouts/drain", says: "put it into defaults"),
            LoadError(host: #""timeouts": { "total": "1w" }"#, at: "/timeouts/total", says: "not a duration"),
            LoadError(host: #""includeSubdomain": true"#, at: "/includeSubdomain", says: "\"includeSubdomains\""),
        ]
    )
    func hosts(error: LoadError) { expectOneIssue(error) }

    @Test(
        "contradictory options are errors",
        arguments: [
            LoadError(
                #""listeners": [{ "address": "127.0.0.1:1", "mode": "gateway", "upstream": "https://a.test" }], "access": { "denyHosts": ["a.test"] }"#,
                at: "/listeners/0/upstream",
                says: "access.denyHosts has \"a.test\""
            ),
            LoadError(
                #""listeners": [{ "address": "127.0.0.1:1", "mode": "gateway", "upstream": "https://a.test" }], "access": { "allowHosts": ["b.test"] }"#,
                at: "/listeners/0/upstream",
                says: "access.allowHosts"
            ),
            LoadError(
                #""listeners": [{ "address": "127.0.0.1:1", "mode": "gateway", "upstream": "https://127.0.0.1:1" }]"#,
                at: "/listeners/0/upstream",
                says: "own listeners"
            ),
            LoadError(
                #""listeners": [{ "address": "[::]:9", "allowRemoteClients": true }], "hosts": { "a.test": { "resolve": "[::1]:9" } }"#,
                at: "/hosts/a.test/resolve",
                says: "own listeners"
            ),
        ]
    )
    func contradictions(error: LoadError) { expectOneIssue(error) }

    @Test("one run shows every error, in the order of the text")
    func everythingAtOnce() {
        let (_, issues, _) = readConfiguration(
            """
            {
              "version": 2,
              "workers": -1,
              "workers": 0,
              "listeners": [{ "address": "0.0.0.0:80" }, { "adress": "127.0.0.1:1" }],
              "log": { "level": "loud" },
              "hosts": { "a b": { "upgrade": 1 }, "a.test": { "resolve": "x", "cache": {} } },
              "cach": {}
            }
            """
        )
        let pointers = issues.sorted { ($0.line ?? 0, $0.column ?? 0) < ($1.line ?? 0, $1.column ?? 0) }.map(\.pointer)
        #expect(
            Set(pointers) == [
                "/version", "/workers", "/listeners/0/address", "/listeners/1", "/listeners/1/adress", "/log/level",
                "/hosts/a b", "/hosts/a b/upgrade", "/hosts/a.test/resolve", "/hosts/a.test/cache", "/cach",
            ]
        )
    }
}
