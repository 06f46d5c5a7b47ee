// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@testable import ProxyConfiguration

@Suite("hooks as the configuration writes them")
struct HookConfigurationTests {
    @Test("every key is read")
    func everyKey() throws {
        let (configuration, issues, _) = readConfiguration(
            #"""
            { "version": 1, "limits": { "redirectBodyBytes": "2MB" },
              "defaults": { "redirects": { "policy": "deny", "max": 7 } },
              "hosts": { "a.test": {
                "redirects": { "comment": "c", "policy": "follow", "max": 5, "rules": [
                  { "comment": "c", "status": 308, "to": "b.test", "scheme": "https", "path": "/x/*", "then": "return" },
                  { "to": ["c.test", "*.d.test"], "then": "rewrite", "scheme": "https", "host": "N.test", "port": 444,
                    "pathPrefix": "/y/", "addHeaders": { "X-A": "1" }, "removeHeaders": ["X-B"] } ] },
                "responses": { "comment": "c", "maxBytes": "1GB", "acceptableStatusCodes": [200, "3xx"],
                  "acceptableContentTypes": "text/*", "rules": [
                  { "comment": "c", "status": 200, "contentType": "text/html", "minBytes": "1KB", "maxBytes": "2KB",
                    "then": "cancel" } ] },
                "headers": { "comment": "c",
                  "request": { "comment": "c", "set": { "X-S": "s" }, "add": { "X-S": "t" }, "remove": ["X-R"] },
                  "response": { "remove": ["Server"] } } },
                "b.test": {} } }
            """#
        )
        #expect(issues.isEmpty, "\(issues)")
        #expect(configuration.limits.redirectBodyBytes == 2 << 20)
        let entry = configuration.hosts[0]
        #expect(entry.redirects.policy == .follow && entry.redirects.max == 5)
        let first = entry.redirects.rules[0]
        #expect(first.statuses == [308] && first.scheme == .https && first.path?.text == "/x/*")
        #expect(first.to?.patterns.map(\.description) == ["b.test"])
        guard case .rewrite(let rewrite) = entry.redirects.rules[1].action else {
            Issue.record("no rewrite")
            return
        }
        #expect(rewrite.scheme == .https && rewrite.host?.description == "n.test" && rewrite.port == 444)
        #expect(rewrite.pathPrefix == "/y/" && entry.redirects.rules[1].scheme == nil)
        #expect(rewrite.fields.added.map(\.name) == ["X-A"] && rewrite.fields.removed == ["X-B"])
        #expect(entry.responses.maxBytes == 1 << 30)
        #expect(entry.responses.acceptableStatusCodes?.description == "200, 300-399")
        #expect(entry.responses.acceptableContentTypes?.map(\.description) == ["text/*"])
        #expect(entry.responses.rules[0].minBytes == 1024 && entry.responses.rules[0].maxBytes == 2048)
        var fields = HeaderFields()
        for (name, value) in [("x-s", "old"), ("X-R", "1"), ("X-O", "1")] {
            try fields.append(name: name, value: value)
        }
        entry.headers.request.apply(to: &fields)
        #expect(fields.list.map { "\($0.name): \($0.value)" } == ["X-O: 1", "X-S: s", "X-S: t"])
        #expect(!entry.headers.request.givesCredentials)
        // Key by key, an entry is laid over defaults.
        #expect(configuration.hosts[1].redirects.policy == .deny && configuration.hosts[1].redirects.max == 7)
        #expect(configuration.hosts[1].responses.isTrivial)
    }

    private static func redirect(_ rule: String, at pointer: String, says: String) -> LoadError {
        LoadError(
            host: #""redirects": { "policy": "return", "rules": [{ \#(rule) }] }"#,
            at: "/redirects/rules/0\(pointer)",
            says: says
        )
    }

    private static func response(_ rule: String, at pointer: String, says: String) -> LoadError {
        LoadError(host: #""responses": { "rules": [{ \#(rule) }] }"#, at: "/responses/rules/0\(pointer)", says: says)
    }

    private static func header(_ member: String, at pointer: String, says: String) -> LoadError {
        LoadError(host: #""headers": { "request": { \#(member) } }"#, at: "/headers/request\(pointer)", says: says)
    }

    @Test(
        "an impossible value is an error at its place",
        arguments: [
            LoadError(host: #""redirects": "return""#, at: "/redirects", says: "an object"),
            LoadError(host: #""redirects": {}"#, at: "/redirects", says: "\"policy\" is missing"),
            LoadError(
                host: #""redirects": { "policy": "folow" }"#,
                at: "/redirects/policy",
                says: "did you mean \"follow\""
            ),
            LoadError(host: #""redirects": { "policy": "return", "max": 0 }"#, at: "/redirects/max", says: "1 to 100"),
            redirect(#""to": "a.test""#, at: "", says: "\"then\" is missing"),
            redirect(#""then": "forward""#, at: "/then", says: "\"rewrite\""),
            redirect(#""then": "deny", "status": 304"#, at: "/status", says: "no redirect"),
            redirect(#""then": "deny", "status": []"#, at: "/status", says: "nothing would match"),
            redirect(#""then": "deny", "to": "a*.test""#, at: "/to", says: "pattern"),
            redirect(#""then": "deny", "scheme": "ftp""#, at: "/scheme", says: "\"https\""),
            redirect(#""then": "deny", "path": "v1/*""#, at: "/path", says: "pattern for a path"),
            redirect(#""then": "follow", "host": "a.test""#, at: "/host", says: "belongs to"),
            redirect(#""then": "rewrite", "to": "a.test""#, at: "", says: "nothing is rewritten"),
            redirect(#""then": "rewrite", "pathPrefix": "x""#, at: "/pathPrefix", says: "not a path"),
            redirect(#""then": "rewrite", "pathPrefix": "/x\r""#, at: "/pathPrefix", says: "not a path"),
            redirect(#""then": "rewrite", "port": 0"#, at: "/port", says: "out of range"),
            redirect(
                #""then": "rewrite", "removeHeaders": ["Host"]"#,
                at: "/removeHeaders/0",
                says: "belongs to the connection"
            ),
            redirect(
                #""then": "rewrite", "removeHeaders": ["Content!Length"]"#,
                at: "/removeHeaders/0",
                says: "belongs to the connection"
            ),
            redirect(
                #""then": "rewrite", "to": "*", "addHeaders": { "Authorization": "x" }"#,
                at: "/addHeaders",
                says: "every host"
            ),
            response(#""status": 200"#, at: "", says: "\"then\" is missing"),
            response(#""then": "allow", "status": 100"#, at: "/status", says: "200 to 599"),
            response(#""then": "allow", "status": "299-200""#, at: "/status", says: "200 to 599"),
            response(#""then": "allow", "contentType": "html""#, at: "/contentType", says: "media type"),
            response(#""then": "allow", "contentType": ["text/html;q=1"]"#, at: "/contentType/0", says: "parameters"),
            response(#""then": "allow", "contentType": "*/html""#, at: "/contentType", says: "media type"),
            response(#""then": "allow", "minBytes": "2KB", "maxBytes": "1KB""#, at: "/maxBytes", says: "no length"),
            response(#""then": "becomeDownload""#, at: "", says: "\"directory\" is missing"),
            response(
                #""then": "becomeDownload", "directory": "/nowhere/at/all""#,
                at: "/directory",
                says: "not a folder"
            ),
            response(#""then": "cancel", "directory": "/tmp""#, at: "/directory", says: "becomeDownload"),
            response(#""then": "allow", "quota": "1GB""#, at: "/quota", says: "becomeDownload"),
            response(
                #""then": "becomeDownload", "directory": "/tmp", "quota": "much""#,
                at: "/quota",
                says: "not a size"
            ),
            header(#""set": { "X-A": 1 }"#, at: "/set/X-A", says: "a string or an object"),
            header(#""set": { "X-A": "a\r\nX-B: b" }"#, at: "/set/X-A", says: "line break"),
            header(#""set": { "X-A": "a\u0000" }"#, at: "/set/X-A", says: "control character"),
            header(#""set": { "X-A": " a" }"#, at: "/set/X-A", says: "white space"),
            header(#""set": { "X A": "a" }"#, at: "/set/X A", says: "not a field name"),
            header(#""set": { "": "a" }"#, at: "/set/", says: "not a field name"),
            header(#""set": { "X-A": "a", "x-a": "b" }"#, at: "/set/x-a", says: "twice"),
            header(#""set": { "X-A": {} }"#, at: "/set/X-A", says: "one of"),
            header(#""set": { "X-A": { "env": "PATH", "file": "x" } }"#, at: "/set/X-A", says: "one of"),
            header(#""set": { "X-A": { "env": "PINPROXY_NO_SUCH_NAME" } }"#, at: "/set/X-A/env", says: "not set"),
            header(#""set": { "X-A": { "file": "/nowhere/at/all" } }"#, at: "/set/X-A/file", says: "cannot be read"),
            LoadError(
                #""defaults": { "headers": { "request": { "set": { "Authorization": "x" } } } }"#,
                at: "/defaults/headers/request",
                says: "every host"
            ),
            LoadError(
                #""defaults": { "headers": { "request": { "add": { "X-A": { "env": "PATH" } } } } }"#,
                at: "/defaults/headers/request",
                says: "every host"
            ),
        ]
    )
    func errors(error: LoadError) {
        let (_, issues, _) = readConfiguration(error.text)
        #expect(issues.map(\.pointer) == [error.pointer], "\(issues)")
        for issue in issues { #expect((issue.message + "; " + issue.remedy).contains(error.says), "\(issue)") }
    }

    @Test(
        "fields of connection, framing and route are refused in every list",
        arguments: [
            "Host", "connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Anything", "TE", "Trailer",
            "Transfer-Encoding", "Transfer_Encoding", "Content-Length", "Content_Length", "Upgrade", "HTTP2-Settings",
            "Via", "Expect", "Max-Forwards",
        ]
    )
    func refusedNames(name: String) {
        for member in [#""set": { "\#(name)": "x" }"#, #""add": { "\#(name)": "x" }"#, #""remove": ["\#(name)"]"#] {
            for side in ["request", "response"] {
                let (_, issues, _) = readConfiguration(
                    #"{ "version": 1, "hosts": { "a.test": { "headers": { "\#(side)": { \#(member) } } } } }"#
                )
                #expect(issues.count == 1 && issues[0].message.contains("made by pinproxy alone"), "\(issues)")
            }
        }
    }

    @Test("a value from a file loses its newline, gets its prefix, and stays secret")
    func files() throws {
        let folder = try ConfigurationFolder()
        func load(_ contents: String) throws -> ConfigurationLoader.Outcome {
            try folder.write("token", contents)
            try folder.write(
                "config.json",
                #"""
                { "version": 1, "trustAnchors": { "system": false }, "hosts": { "a.test": { "upgrade": true,
                  "headers": { "request": { "set": { "Authorization": { "file": "token", "prefix": "Bearer " } } } } } } }
                """#
            )
            return ConfigurationLoader.load(path: folder.path("config.json"))
        }
        for contents in ["s3cret", "s3cret\n", "s3cret\r\n"] {
            let outcome = try load(contents)
            let changes = try #require(outcome.parts?.configuration.hosts.first?.headers.request)
            var fields = HeaderFields()
            changes.apply(to: &fields)
            #expect(fields.value(for: "Authorization") == "Bearer s3cret")
            #expect(changes.givesCredentials)
            #expect(outcome.record.files.contains(folder.path("token")), "changes of the file are watched for")
        }
        for contents in ["s3cret\n\n", "s3\ncret", "s3cret\u{0}", "s3cret \n", "", "\n"] {
            let outcome = try load(contents)
            #expect(outcome.parts == nil)
            #expect(outcome.issues.count == 1)
            #expect(!outcome.issues.contains { "\($0)".contains("s3") })
        }
    }

    @Test("credentials that may go out in the clear are warnings")
    func clearText() throws {
        func warnings(_ members: String) throws -> [String] {
            let folder = try ConfigurationFolder([
                "token": "x",
                "config.json": """
                { "version": 1, "pins": "pins", "trustAnchors": { "system": false }, "hosts": { "a.test": { \(members)
                  "headers": { "request": { "set": { "X-Key": { "file": "token" } } } } } } }
                """,
                "pins/b.json": pinFile("b.test"),
            ])
            return ConfigurationLoader.load(path: folder.path("config.json")).warnings.map(\.pointer)
                .filter { $0.hasPrefix("/hosts") }
        }
        #expect(try warnings("") == ["/hosts/a.test/headers"])
        #expect(try warnings(#""upgrade": true,"#) == [])
    }
}
