// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@Suite("Where pin files send reports")
struct ReportDestinationTests {
    private struct Domain {
        var name: String
        var reports: [String] = []
        var members = ""
    }

    private static func file(_ domains: [Domain]) -> String {
        let texts = domains.map { domain in
            let uris = domain.reports.map { "\"\($0)\"" }.joined(separator: ", ")
            let pins = "\"pins\": [\"\(PublicKeyPin.unrelated(1))\", \"\(PublicKeyPin.unrelated(2))\"]"
            return "\"\(domain.name)\": { \(pins), \"reportUris\": [\(uris)]\(domain.members) }"
        }
        return "{ \"version\": 1, \"pinnedDomains\": { \(texts.joined(separator: ", ")) } }"
    }

    /// The pointers of the issues, or none.
    private static func pointers(_ domains: Domain...) -> [String] {
        do {
            _ = try PinFile.load(text: file(domains), file: "p.json", at: 1_800_000_000)
            return []
        } catch {
            return error.issues.map(\.pointer)
        }
    }

    private static let subdomains = ", \"includeSubdomains\": true"

    @Test("URIs are kept with the policy, in their order")
    func kept() throws {
        let uris = ["https://r.example.net/a", "http://[2001:db8::1]:8080/b?c"]
        let text = Self.file([Domain(name: "example.com", reports: uris, members: Self.subdomains)])
        let loaded = try PinFile.load(text: text, file: "p.json", at: 1_800_000_000)
        let policy = try #require(loaded.domains.policy(host: Host("a.example.com"), port: 443))
        #expect(policy.configuration.reportUris.map(\.description) == uris)
        #expect(policy.configuration.includesSubdomains)
    }

    @Test("79 a report about a host never goes to that host")
    func sameHost() {
        for uri in [
            "https://api.example.com/r", "https://API.example.com.:8443/r", "http://api.example.com/",
        ] {
            let issues = Self.pointers(Domain(name: "api.example.com", reports: ["https://r.example.net/", uri]))
            #expect(issues == ["/pinnedDomains/api.example.com/reportUris/1"], "\(uri)")
        }
        #expect(Self.pointers(Domain(name: "api.example.com", reports: ["https://r.example.com/"])) == [])
    }

    @Test("79 a report about a domain does not go to its covered subdomains")
    func subdomain() {
        let parent = Domain(name: "example.com", reports: ["https://r.example.com/"], members: Self.subdomains)
        #expect(Self.pointers(parent) == ["/pinnedDomains/example.com/reportUris/0"])
        #expect(Self.pointers(parent, Domain(name: "r.example.com")) == [])
        var alone = parent
        alone.members = ""
        #expect(Self.pointers(alone) == [])
    }

    @Test("a domain that is excluded from its parent's policy may collect the parent's reports")
    func excluded() throws {
        let parent = Self.file([
            Domain(name: "example.com", reports: ["https://r.example.com/"], members: Self.subdomains)
        ])
        let text = parent.dropLast(3) + ", \"r.example.com\": { \"excludeFromParentPolicy\": true } } }"
        _ = try PinFile.load(text: String(text), file: "p.json", at: 1_800_000_000)
    }

    @Test("79 a loop of reports is refused at each step")
    func cycles() {
        let a = Domain(name: "a.example", reports: ["https://b.example/"])
        let b = Domain(name: "b.example", reports: ["https://r.c.example/", "https://free.example/"])
        let c = Domain(name: "c.example", reports: ["https://a.example/"], members: Self.subdomains)
        #expect(Self.pointers(a, b) == [])
        let issues = Self.pointers(a, b, c)
        #expect(
            Set(issues) == [
                "/pinnedDomains/a.example/reportUris/0", "/pinnedDomains/b.example/reportUris/0",
                "/pinnedDomains/c.example/reportUris/0",
            ]
        )
        // A domain that leads into a loop of other domains is not part of the loop.
        let outside = Domain(name: "d.example", reports: ["https://a.example/"])
        #expect(Self.pointers(outside, a, b, c).count == 3)
    }

    @Test("a loop is found across files, with file, pointer and remedy")
    func acrossFiles() throws {
        let folder = try TemporaryFolder()
        try folder.write(Self.file([Domain(name: "a.example", reports: ["https://b.example/"])]), as: "pins/a.json")
        try folder.write(Self.file([Domain(name: "b.example", reports: ["https://a.example/"])]), as: "pins/b.json")
        let issues = #expect(throws: DocumentIssues.self) {
            _ = try PinFile.load(path: folder.path + "/pins", at: 1_800_000_000)
        }
        let all = try #require(issues?.issues)
        #expect(all.map { $0.file.split(separator: "/").last.map(String.init) } == ["a.json", "b.json"])
        #expect(all.allSatisfy { $0.message.contains("lead back to") && $0.remedy.contains("collector") })
        #expect(all.allSatisfy { $0.line != nil })
    }
}
