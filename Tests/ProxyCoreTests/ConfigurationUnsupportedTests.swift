import ServerTrust
import Testing

@testable import ProxyCore

@Suite("what this version does not support")
struct ConfigurationUnsupportedTests {
    @Test(
        "a key without function is refused, with what to do instead",
        arguments: [
            LoadError(#""cache": { "memory": "64MB" }"#, at: "/cache", says: "nothing is cached"),
            LoadError(#""defaults": { "cache": {} }"#, at: "/defaults/cache", says: "nothing is cached"),
            LoadError(host: #""cache": {}"#, at: "/cache", says: "nothing is cached"),
        ]
    )
    func refused(error: LoadError) {
        let (_, issues, _) = readConfiguration(error.text)
        #expect(issues.map(\.pointer) == [error.pointer], "\(issues)")
        for issue in issues {
            #expect(issue.message.contains("not supported by this version"), "\(issue)")
            #expect(issue.remedy.contains(error.says), "\(issue)")
        }
    }

    @Test(
        "a wrong value is not called unsupported",
        arguments: [
            LoadError(
                listener: #""address": "127.0.0.1:1", "http2": "no""#,
                at: "/listeners/0/http2",
                says: "true or false"
            ),
            LoadError(host: #""connect": "forbid""#, at: "/connect", says: "unknown value"),
            LoadError(host: #""connect": true"#, at: "/connect", says: "a string"),
            LoadError(#""access": { "connectPorts": ["443"] }"#, at: "/access/connectPorts/0", says: "whole number"),
        ]
    )
    func wrong(error: LoadError) {
        let (_, issues, _) = readConfiguration(error.text)
        #expect(issues.map(\.pointer) == [error.pointer], "\(issues)")
        for issue in issues {
            #expect(!issue.message.contains("not supported"), "\(issue)")
            #expect((issue.message + issue.remedy).contains(error.says), "\(issue)")
        }
    }

    @Test("a configuration with everything that later versions take brings refusals only")
    func everythingOfLaterVersions() {
        let (_, issues, _) = readConfiguration(
            #"""
            {
              "version": 1,
              "listeners": [{ "address": "127.0.0.1:8080", "mode": "forward", "allowHosts": ["*"] }],
              "admin": { "address": "127.0.0.1:8081" },
              "cache": { "shared": true, "memory": "64MB", "disk": { "path": "/var/cache/pinproxy", "size": "1GB" } },
              "defaults": { "connect": "deny", "redirects": { "policy": "return" } },
              "hosts": { "api.example.com": {
                "cache": { "requestPolicy": "useProtocolCachePolicy" }
              } }
            }
            """#
        )
        let host = "/hosts/api.example.com"
        #expect(Set(issues.map(\.pointer)) == ["/cache", "\(host)/cache"])
        for issue in issues { #expect(issue.message.contains("not supported by this version"), "\(issue)") }
    }

    @Test("no message recommends a key that this version refuses")
    func neverRecommended() {
        let (_, issues, _) = readConfiguration(#"{ "version": 1, "cahce": {}, "xyzzy": {} }"#)
        #expect(issues.count == 2)
        for issue in issues { #expect(!issue.remedy.contains("cache"), "\(issue)") }
    }
}
