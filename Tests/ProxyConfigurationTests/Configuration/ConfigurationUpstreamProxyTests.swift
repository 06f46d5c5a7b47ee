// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@testable import ProxyConfiguration

@Suite("upstreamProxy in the configuration")
struct ConfigurationUpstreamProxyTests {
    private func read(_ members: String) -> (Configuration, [String]) {
        let (configuration, issues, _) = readConfiguration("{ \"version\": 1, \(members) }")
        return (configuration, issues.map { "\($0.pointer): \($0.message); \($0.remedy)" })
    }

    @Test("the global proxy applies to hosts without their own or none")
    func inheritance() throws {
        let (configuration, issues) = read(
            #"""
            "upstreamProxy": "http://proxy.test:3128",
            "hosts": { "a.test": {}, "b.test": { "upstreamProxy": null }, "c.test": { "upstreamProxy": "none" },
                       "d.test": { "upstreamProxy": "socks5h://u:p%3A@[2001:db8::1]:1080" },
                       "e.test": { "upstreamProxy": { "url": "http://10.0.0.1:8080/" } },
                       "f.test": { "upstreamProxy": "HTTPS://u:p@proxy.test:3129" } }
            """#
        )
        #expect(issues.isEmpty, "\(issues)")
        #expect(configuration.defaults.upstreamProxy?.description == "http://proxy.test:3128")
        #expect(
            configuration.hosts.map { $0.upstreamProxy?.account } == [
                "http://proxy.test:3128", nil, nil, "socks5h://[2001:db8::1]:1080, with credentials",
                "http://10.0.0.1:8080", "https://proxy.test:3129, with credentials",
            ]
        )
        #expect(configuration.hosts[3].upstreamProxy?.credentials == .init(user: "u", password: "p:"))
        #expect(configuration.hosts[4].upstreamProxy?.literal == (try AddressAndPort(parsing: "10.0.0.1:8080")))
        #expect(configuration.defaults.upstreamProxy?.literal == nil)
    }

    @Test(
        "an unreadable proxy has a remedy, without the password",
        arguments: [
            (#""upstreamProxy": "proxy.test:3128""#, "not the URL of a proxy"),
            (#""upstreamProxy": "http://user:s3cret@proxy.test""#, "port is missing"),
            (#""upstreamProxy": "http://user:s3cret@proxy.test:0""#, "port is missing"),
            (#""upstreamProxy": "https://user:s3cret@proxy.test""#, "port is missing"),
            (#""upstreamProxy": "https+h2://user:s3cret@proxy.test:1""#, "neither"),
            (#""upstreamProxy": "socks5://user:s3cret@proxy.test:1""#, "socks5h"),
            (#""upstreamProxy": "ftp://user:s3cret@proxy.test:1""#, "neither"),
            (#""upstreamProxy": "http://s3cret@proxy.test:1""#, "credentials that cannot be read"),
            (#""upstreamProxy": "http://user:s3cret%2@proxy.test:1""#, "credentials that cannot be read"),
            (#""upstreamProxy": "http://user:s3cret@proxy.test:1/path""#, "more than"),
            (#""upstreamProxy": "http://user:s3cret@a b:1""#, "not a host"),
            (#""upstreamProxy": { "url": "http://user:s3cret@p.test:1", "credentialsFile": "f" }"#, "said twice"),
            (
                #""upstreamProxy": { "url": "http://p.test:1", "credentialsFile": "missing.s3cret" }"#,
                "upstreamProxy/credentialsFile"
            ),
            (
                #""upstreamProxy": { "url": "http://p.test:1", "credentialsEnvironment": "PINPROXY_NO_SUCH" }"#,
                "no such"
            ),
            (#""upstreamProxy": {}"#, "missing"), (#""upstreamProxy": 3128"#, "a string"),
            (#""defaults": { "upstreamProxy": "http://p.test:1" }"#, "at the top"),
            (
                #""listeners": [{ "address": "127.0.0.1:8080" }], "upstreamProxy": "http://127.0.0.1:8080""#,
                "own listeners"
            ),
        ]
    )
    func errors(members: String, says: String) {
        let (_, issues) = read(members)
        #expect(issues.count == 1, "\(issues)")
        #expect(issues.first?.contains(says) == true, "\(issues)")
        #expect(issues.allSatisfy { !$0.contains("user:s3cret") && !$0.contains("s3cret@") })
    }
}
