// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import TestSupport
import Testing

@Suite("Command line: check", .onOwnThreads)
struct CommandLineCheckTests {
    @Test("a good configuration prints the policy of each host and ends with 0")
    func goodConfiguration() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: try TestPKI())
        settings.pin("api.test", to: .unrelated(7))
        settings.hosts["plain.test"] = ["upgrade": true]
        let finished = try pinproxy("check", "--config", settings.write(to: folder))
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.errors.isEmpty)
        #expect(finished.output.contains("\napi.test\n  upgrade            always: a pin file names the host\n"))
        #expect(finished.output.contains("pinning            publicKey, enforced"))
        #expect(finished.output.contains("\nplain.test\n  upgrade            yes\n"))
    }

    @Test("addresses of reports are shown without their secrets")
    func reports() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: try TestPKI())
        let uris = ["https://collector.test/s3cr3t?token=s3cr3t", "http://other.test:8080/s3cr3t"]
        settings.pin("api.test", to: .unrelated(7), with: ["reportUris": uris])
        let finished = try pinproxy("check", "--config", settings.write(to: folder))
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.output.contains("https://collector.test, http://other.test:8080\n"), "\(finished.output)")
        #expect(!finished.output.contains("s3cr3t") && !finished.errors.contains("s3cr3t"))
    }

    @Test("the first hundred of 100,000 unknown keys are printed")
    func manyErrors() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: try TestPKI())
        settings.pin("api.test", to: .unrelated(7))
        let keys = (0..<100_000).map { "\"unknown\($0)\":0" }.joined(separator: ",")
        settings.files["pins/many.json"] = "{\"version\":1,\"pinnedDomains\":{\"many.test\":{\(keys)}}}"
        let finished = try pinproxy("check", "--config", settings.write(to: folder))
        #expect(finished.exitCode == 78)
        let lines = finished.errors.split(separator: "\n")
        #expect(lines.count == 102 && finished.errors.utf8.count < 100_000)
        // One key more is missing: the pins.
        #expect(
            lines[100].contains("and 99901 more errors") && lines[101].contains("100001 errors in the configuration")
        )
    }

    @Test("revocation settings are shown, and lists not in force are warnings")
    func revocation() throws {
        let folder = try TemporaryFolder()
        let pki = try TestPKI()
        var settings = ProxySettings(trusting: pki)
        for (name, end) in [("current", TestPKI.validity.upperBound), ("old", TestPKI.validity.lowerBound + 1)] {
            let list = RevocationListBuilder(validity: TestPKI.validity.lowerBound..<end)
            settings.files["pins/\(name).crl"] = try list.pem(issuer: pki.intermediate)
            let revocation: [String: Any] =
                name == "old"
                ? ["crlFiles": ["old.crl"]]
                : ["crlFiles": ["current.crl"], "crlScope": "chain", "requireStaple": true]
            settings.pin("\(name).test", to: .unrelated(7), with: ["revocation": revocation])
        }
        settings.pin("fetched.test", to: .unrelated(7), with: ["revocation": ["fetch": true]])
        settings.members["crls"] = ["folder": "/var/lib/lists", "every": "90m"]
        let finished = try pinproxy("check", "--config", settings.write(to: folder))
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.output.contains("lists are fetched for the server's certificate"))
        #expect(finished.output.contains("every 90m, kept in /var/lib/lists"))
        #expect(finished.output.contains("revocation         1 list for the whole chain; a staple is required\n"))
        #expect(finished.output.contains("revocation         1 list for the server's certificate\n"))
        #expect(finished.errors.split(separator: "\n").count == 1, "\(finished.errors)")
        #expect(finished.errors.contains("/pinnedDomains/old.test/revocation/crlFiles/0: the list of"))
        #expect(finished.errors.contains("is out of date"))
    }

    @Test(
        "the configurations of the repository are valid",
        arguments: ["config.example.json", "Examples/gateway.json", "Examples/only-pinned.json"]
    )
    func examples(name: String) throws {
        // Tests/SystemTests/ and this file.
        let repository = Repository.folder
        let finished = try pinproxy("check", "--config", repository.appendingPathComponent(name).path)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.output.contains("\napi.example.com\n"))
    }

    @Test("--json has policy, errors and warnings with their places, and the same exit codes")
    func forPrograms() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: try TestPKI())
        settings.pin("api.test", to: .unrelated(7))
        func check(_ path: String) throws -> (code: Int32, object: [String: Any]) {
            let finished = try pinproxy("check", "--json", "--config", path)
            #expect(finished.errors.isEmpty)
            let object = try JSONSerialization.jsonObject(with: Data(finished.output.utf8))
            return (finished.exitCode, try #require(object as? [String: Any]))
        }
        let good = try check(settings.write(to: folder))
        #expect(good.code == 0)
        #expect(good.object["valid"] as? Bool == true)
        let titles = try #require(good.object["policy"] as? [[String: Any]]).compactMap { $0["title"] as? String }
        #expect(titles.contains("api.test"))
        let path = try folder.write("{ \"version\": 1,\n  \"listenners\": [] }", as: "bad.json")
        let bad = try check(path)
        #expect(bad.code == 78)
        #expect(bad.object["valid"] as? Bool == false)
        #expect(bad.object["policy"] == nil)
        let error = try #require((bad.object["errors"] as? [[String: Any]])?.first)
        #expect(error["pointer"] as? String == "/listenners")
        #expect(error["line"] as? Int == 2)
        #expect(try pinproxy("check", "--json", "--config", "\(folder.path)/gone.json").exitCode == 66)
    }

    @Test("a warning stands on the standard error and fails nothing")
    func warning() throws {
        let folder = try TemporaryFolder()
        let path = try ProxySettings(trusting: try TestPKI()).write(to: folder)
        let finished = try pinproxy("check", "--config=\(path)")
        #expect(finished.exitCode == 0)
        #expect(finished.errors.hasPrefix("pinproxy: warning: \(path): no host is pinned"))
    }

    /// A configuration with an unknown key, a duplicate key and a bad value, and a pin file with two errors.
    private func writeBadFiles(_ folder: TemporaryFolder) throws -> String {
        try folder.write(
            """
            { "version": 1, "pinnedDomains": { "api.test": { "pins": ["sha256/short"], "wrong": 1 } } }
            """,
            as: "pins/api.json"
        )
        return try folder.write(
            """
            {
              "version": 1,
              "pins": "pins",
              "trustAnchors": { "system": false },
              "lisseners": [],
              "workers": 1,
              "workers": 2,
              "limits": { "headBytes": "lots" }
            }
            """,
            as: "config.json"
        )
    }

    // MARK: How strict it is

    @Test("--strict ends with 78 for a warning, also with --json")
    func strict() throws {
        let folder = try TemporaryFolder()
        let path = try ProxySettings(trusting: try TestPKI()).write(to: folder)
        let finished = try pinproxy("check", "--strict", path)
        #expect(finished.exitCode == 78)
        #expect(finished.errors.contains("warning: \(path): no host is pinned"), "\(finished.errors)")
        #expect(finished.errors.hasSuffix("pinproxy: 1 warning, and --strict\n"))
        #expect(finished.output.contains("unpinned"))
        let json = try pinproxy("check", "--strict", "--json", "-c", path)
        #expect(json.exitCode == 78 && json.errors.isEmpty && json.output.contains("\"valid\":true"))
        var settings = ProxySettings(trusting: try TestPKI())
        settings.pin("api.test", to: .unrelated(7))
        #expect(try pinproxy("check", "--strict", settings.write(to: folder)).exitCode == 0)
        #expect(try pinproxy("check", "--strict", "--load", path).exitCode == 64)
    }

    @Test("an expired pin set that denies is an error of check alone")
    func expiredSets() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: try TestPKI())
        settings.pin("api.test", to: .unrelated(7), with: ["expiration": "2020-01-31"])
        settings.pin("open.test", to: .unrelated(8), with: ["expiration": "2020-01-31", "onExpiration": "unpinned"])
        let path = try settings.write(to: folder)
        let finished = try pinproxy("check", path)
        #expect(finished.exitCode == 78 && finished.output.isEmpty)
        let lines = finished.errors.split(separator: "\n")
        let place = "\(folder.path)/pins/test.json: /pinnedDomains/api.test/expiration: "
        #expect(lines.contains { $0.hasPrefix(place) && $0.contains("every request is refused") }, "\(finished.errors)")
        #expect(lines.contains { $0.hasPrefix("pinproxy: warning: ") && $0.contains("open.test") })
        #expect(lines.last == "pinproxy: 1 error in the configuration")
        let load = try pinproxy("check", "--load", path)
        #expect(load.exitCode == 0 && load.errors.contains("warning: \(place)"), "\(load.errors)")
        let json = try pinproxy("check", "--json", path)
        #expect(json.exitCode == 78)
        #expect(json.output.contains("\"valid\":false") && json.output.contains("\"code\":\"pin_set_expired\""))
        #expect(try pinproxy("exec", "--config", path, "--", "true").exitCode == 0)
    }

    @Test("expired pin sets beyond the shown warnings are errors")
    func manyExpiredSets() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: try TestPKI())
        for number in 0..<150 {
            settings.pin("host\(number).test", to: .unrelated(7), with: ["expiration": "2020-01-31"])
        }
        let finished = try pinproxy("check", settings.write(to: folder))
        #expect(finished.exitCode == 78)
        #expect(
            finished.errors.hasSuffix("pinproxy: 150 errors in the configuration\n"),
            "\(finished.errors.suffix(300))"
        )
    }

    @Test("a placeholder that no request head can hold is a warning")
    func longPlaceholder() throws {
        let folder = try TemporaryFolder()
        try folder.write("a-secret-value", as: "token")
        for (bytes, isWarned) in [(1000, false), (3000, false), (3100, true)] {
            var settings = ProxySettings(trusting: try TestPKI())
            settings.pin("api.test", to: .unrelated(7))
            settings.members["limits"] = ["headBytes": "4KB"]
            let text = String(repeating: "x", count: bytes)
            settings.members["credentials"] = [
                "git": ["basicUser": "git", "file": "token", "placeholder": text],
                "plain": ["file": "token", "placeholder": String(text.prefix(4000))],
            ]
            let finished = try pinproxy("check", settings.write(to: folder))
            #expect(finished.exitCode == 0, "\(finished.errors)")
            let warned = finished.errors.contains("/credentials/git/placeholder: no request can hold the placeholder")
            #expect(warned == isWarned, "\(bytes): \(finished.errors)")
            #expect(!finished.errors.contains("/credentials/plain/placeholder"))
        }
    }

    // MARK: The configuration's place

    @Test("a configuration is an operand, -c or --config, and one alone")
    func operand() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: try TestPKI())
        settings.pin("api.test", to: .unrelated(7))
        let path = try settings.write(to: folder)
        for words in [[path], ["-c", path], ["-c\(path)"], ["--config", path]] {
            #expect(try pinproxy(["check"] + words).exitCode == 0, "\(words)")
        }
        let two = try pinproxy("check", "--config", path, path)
        #expect(two.exitCode == 64 && two.errors.contains("one argument too many"), "\(two.errors)")
        let child = try ChildProcess(try Programs.built("pinproxy"), ["run", path])
        _ = try child.waitForErrors("the listener") { $0.contains("\"listening\"") ? $0 : nil }
        child.signal(SIGTERM)
        #expect(try child.waitForExit().exitCode == 0)
    }

    @Test("without a configuration the installed service's is read")
    func installed() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: try TestPKI())
        settings.pin("api.test", to: .unrelated(7))
        let admin = try TestSocket.reserveRefusingPort()
        defer { close(admin.descriptor) }
        settings.members["admin"] = ["address": "127.0.0.1:\(admin.port)"]
        _ = try settings.write(to: folder)
        let script = """
            mount -t tmpfs none /etc && mkdir /etc/pinproxy && cp -r "$1"/. /etc/pinproxy
            "$0" check | grep -c '^api.test'
            "$0" exec -- true; echo $?
            "$0" health 2>&1
            "$0" exec --intercept -- true; echo $?
            rm /etc/pinproxy/config.json; "$0" check 2>&1
            """
        let finished = try Programs.run(
            "unshare",
            ["--user", "--map-root-user", "--mount", "sh", "-c", script, try Programs.built("pinproxy"), folder.path]
        )
        let lines = finished.output.split(separator: "\n")
        #expect(lines.prefix(2) == ["1", "0"], "\(finished.output) \(finished.errors)")
        #expect(finished.output.contains("nothing listens at 127.0.0.1:\(admin.port)"), "\(finished.output)")
        #expect(finished.output.contains("--config FILE is missing (without it /etc/pinproxy/config.json"))
    }

    @Test("every error of all files is reported in one run, with its place")
    func everyError() throws {
        let folder = try TemporaryFolder()
        let path = try writeBadFiles(folder)
        let finished = try pinproxy("check", "--config", path)
        #expect(finished.exitCode == 78)
        #expect(finished.output.isEmpty)
        let lines = finished.errors.split(separator: "\n").map(String.init)
        for pointer in ["/lisseners: ", "/workers: ", "/limits/headBytes: "] {
            #expect(lines.contains { $0.hasPrefix("\(path): \(pointer)") && $0.contains("line ") }, "\(pointer)")
        }
        let pinFile = "\(folder.path)/pins/api.json: /pinnedDomains/api.test"
        #expect(lines.contains { $0.hasPrefix("\(pinFile)/pins/0: ") })
        #expect(lines.contains { $0.hasPrefix("\(pinFile)/wrong: ") })
        let issues = lines.filter { !$0.hasPrefix("pinproxy: ") }
        #expect(lines.last == "pinproxy: \(issues.count) errors in the configuration")
    }

    @Test("run and exec refuse the same files with the same words and code", arguments: ["run", "exec"])
    func othersRefuseToo(command: String) throws {
        let folder = try TemporaryFolder()
        let path = try writeBadFiles(folder)
        let checked = try pinproxy("check", "--config", path)
        let tail = command == "exec" ? ["--", "true"] : []
        let refused = try pinproxy([command, "--config", path] + tail)
        #expect(refused.exitCode == 78)
        #expect(refused.errors == checked.errors)
    }

    @Test("a missing configuration ends with 66", arguments: ["check", "run", "exec"])
    func missingConfiguration(command: String) throws {
        let folder = try TemporaryFolder()
        let tail = command == "exec" ? ["--", "true"] : []
        // As Kubernetes mounts its files.
        let path = "\(folder.path)/volumes/kubernetes.io~configmap/pinproxy-configuration/none.json"
        let finished = try pinproxy([command, "--config", path] + tail)
        #expect(finished.exitCode == 66)
        #expect(finished.errors.contains("\"\(path)\" does not exist"))
    }
}
