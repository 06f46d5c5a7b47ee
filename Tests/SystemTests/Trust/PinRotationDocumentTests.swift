// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

/// Plays `docs/pin-rotation.md` line by line: the commands are taken from the document.
@Suite("The runbook of pin rotation", .onOwnThreads)
struct PinRotationDocumentTests {
    private static let host = "api.example.com"
    private let document: String

    init() throws {
        let root = Repository.folder
        document = try String(
            contentsOf: root.appendingPathComponent("docs/pin-rotation.md"),
            encoding: .utf8
        )
    }

    /// The shell blocks, in order, each with the heading above it.
    private var blocks: [(heading: String, text: String)] {
        var blocks: [(String, String)] = []
        var heading = ""
        var lines: [Substring]?
        for line in document.split(separator: "\n", omittingEmptySubsequences: false) {
            if line == "```sh" {
                lines = []
            } else if line == "```", let block = lines {
                blocks.append((heading, block.joined(separator: "\n") + "\n"))
                lines = nil
            } else if lines != nil {
                lines?.append(line)
            } else if line.hasPrefix("## ") {
                heading = String(line.dropFirst(3))
            }
        }
        return blocks
    }

    /// The commands in the paragraph about what to do if the host does not pass.
    private func wayBack() throws -> [String] {
        let start = try #require(document.range(of: "**If it does not pass**")?.upperBound)
        let paragraph = document[start...].components(separatedBy: "\n\n")[0]
        return paragraph.matches(of: /`([^`]+)`/).map { String($0.output.1) }
    }

    /// The documented output of `pins verify` when only the backup matches, for another pin.
    private func sample(_ pin: String) throws -> String {
        let start = try #require(document.range(of: "```\nPASS  ")).lowerBound
        let text = document[start...].dropFirst(4).components(separatedBy: "```")[0]
        return text.replacing(/sha256\/\S+/) { _ in pin }
    }

    /// A server's nginx, its authority, a proxy, and the scripts that stand for the operator's surroundings.
    private struct Site {
        let folder: TemporaryFolder
        let nginx: NginxOrigin
        let proxy: ProxyUnderTest
        let server: TestServer

        init(_ host: String) throws {
            folder = try TemporaryFolder()
            let pki = try TestPKI()
            server = try pki.server(host)
            nginx = try NginxOrigin(server)
            var settings = ProxySettings(trusting: pki)
            settings.resolve(host, to: nginx.port)
            settings.members["pins"] = "pins"
            settings.files["pins/\(host).json"] = """
                { "version": 1, "pinnedDomains": { "\(host)": { "allowSinglePin": true, "pins": ["\(server.pin)"] } } }
                """
            proxy = try ProxyUnderTest(settings)
            try folder.write(pki.intermediate.certificate.pem, as: "ca.pem")
            try folder.write(pki.intermediate.key.privateKeyPEM, as: "ca.key")
            try folder.write(
                """
                set -e
                cd '\(folder.path)'
                openssl x509 -req -in "$1" -CA ca.pem -CAkey ca.key -days 90 -copy_extensions copy -out signed.pem
                cat signed.pem ca.pem > "$2"
                """,
                as: "sign"
            )
            // nginx takes its certificate up with SIGHUP, and has done so when its old workers are gone.
            try folder.write(
                """
                set -e
                rm '\(folder.path)/asked'
                master=$(cat '\(nginx.folder.path)/nginx.pid')
                workers=$(ps -o pid= --ppid "$master")
                kill -HUP "$master"
                for worker in $workers; do while kill -0 "$worker" 2> /dev/null; do sleep 0.02; done; done
                """,
                as: "reload-now"
            )
            // A reload is over before the server has done what it was asked for. Here it does so in the first pause that
            // the runbook makes.
            try folder.write("touch '\(folder.path)/asked'\n", as: "reload-server")
            let pause = try folder.write(
                "#!/bin/sh\nif [ -e '\(folder.path)/asked' ]; then sh '\(folder.path)/reload-now'; fi\n",
                as: "bin/sleep"
            )
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: pause)
            try tellReloads()
            try folder.write(
                """
                set -e
                cd '\(folder.path)'
                before=$(cat reloads)
                kill -HUP \(proxy.identifier)
                while [ "$(cat reloads)" = "$before" ]; do sleep 0.02; done
                """,
                as: "reload-proxy"
            )
        }

        /// Writes down how many reloads the proxy has done because it was asked: what `systemctl reload` waits for.
        func tellReloads() throws {
            let count = proxy.events("reloaded").count { $0.string("trigger") == "SIGHUP" }
            let file = URL(fileURLWithPath: "\(folder.path)/reloads")
            try Data("\(count)\n".utf8).write(to: file, options: .atomic)
        }

        /// The variables that the document has an operator set.
        func variables(_ host: String) -> [String: String] {
            let (nginx, proxy) = (nginx.folder.path, proxy.folder.path)
            let port = self.proxy.listening[0].port ?? 0
            return [
                "HOST": host, "CONFIG": "\(proxy)/config.json", "PINS": "\(proxy)/pins",
                "CERTIFICATE": "\(nginx)/server.pem", "KEY": "\(nginx)/server.key",
                "SPARE": "\(folder.path)/spare keys", "SIGN": "sh \(folder.path)/sign",
                "RELOAD_SERVER": "sh \(folder.path)/reload-server",
                "RELOAD_PROXY": "sh \(folder.path)/reload-proxy", "PROXY": "http://127.0.0.1:\(port)",
            ]
        }
    }

    /// The first block with this site's values: each variable that the document sets, and no other.
    private func assignments(_ block: String, _ values: [String: String]) throws -> String {
        var rest = values
        let lines = try block.split(separator: "\n").map { line in
            let name = String(line.prefix { $0 != "=" })
            let known = rest.removeValue(forKey: name)
            let value = try #require(known, "\(line)")
            return "\(name)='\(value)'\n"
        }
        #expect(rest.isEmpty)
        return lines.joined()
    }

    @Test("every command of the runbook works in order, with real programs")
    func everyCommand() throws {
        let site = try Site(Self.host)
        let blocks = blocks
        #expect(blocks.count == 12)
        // A block is pasted into one and the same shell; none of its commands may fail.
        var script = "set -eu\n" + (try assignments(blocks[0].text, site.variables(Self.host)))
        for (index, block) in blocks.enumerated().dropFirst() {
            script += "echo '<\(index)>'\n\(block.text)"
            // The server has the new key: the way back, and there again.
            guard block.text.contains("$RELOAD_SERVER") else { continue }
            let wayBack = try wayBack()
            #expect(wayBack.count == 3)
            let reloads = "sh '\(site.folder.path)/reload-now'\n"
            script += "\(reloads)\(wayBack.joined(separator: "\n"))\n\(reloads)\(blocks[1].text)\(block.text)"
        }
        script += "echo '<end>'\n"
        let path = try site.folder.write(script, as: "runbook")
        let binary = URL(fileURLWithPath: try Programs.built("pinproxy")).deletingLastPathComponent()
            .path
        var environment = Programs.environment
        environment["PATH"] = "\(site.folder.path)/bin:\(binary):\(environment["PATH"] ?? "/usr/bin:/bin")"
        let shell = try ChildProcess("/bin/sh", [path], environment: environment)
        try Patience.poll(for: "the end of the runbook") {
            try site.tellReloads()
            return shell.exitCode
        }
        let finished = try shell.waitForExit()
        #expect(finished.exitCode == 0, "\(finished.output)\n\(finished.errors)")

        // The output of each step.
        var outputs: [String: String] = [:]
        for (index, block) in blocks.enumerated().dropFirst() {
            let start = try #require(finished.output.range(of: "<\(index)>\n"), "\(finished.output)")
                .upperBound
            let end = finished.output.range(of: index + 1 == blocks.count ? "<end>" : "<\(index + 1)>\n")?
                .lowerBound
            outputs[block.heading, default: ""] += finished.output[start..<(try #require(end))]
        }
        func output(_ step: Int) throws -> String {
            try #require(outputs.first { $0.key.hasPrefix("\(step). ") }?.value)
        }
        let warning = "only a backup pin matched"
        #expect(
            try output(1).contains("PASS  \(Self.host):443  pass\n      pin       \(site.server.pin)\n")
        )
        let next = try output(2).trimmingCharacters(in: .whitespacesAndNewlines)
        #expect(next.hasPrefix("sha256/") && next != "\(site.server.pin)")
        let added = try output(3)
        #expect(added.contains("    + pin \(next) (backup, the next key, in reserve)\n"))
        #expect(!added.contains("WEAKER") && !added.contains(warning) && added.contains("all 1 passed"))
        let changed = try output(4)
        #expect(changed.contains("\(next)  CN = \(Self.host) (EC P-256)\n"))
        #expect(changed.contains("      pin       \(next)\n"))
        // The new certificate holds 90 days from the second in which it was signed.
        let days = changed.replacing("ends in 90 days", with: "ends in 89 days")
        #expect(days.contains(try sample(next)), "\(changed)")
        // On the way back the old key passed again, and nothing was warned of.
        let formerly = "PASS  \(Self.host):443  pass\n      pin       \(site.server.pin)\n"
        #expect(changed.components(separatedBy: formerly).count == 2)
        let promoted = try output(5)
        #expect(promoted.contains("    - pin \(site.server.pin) "))
        #expect(promoted.contains("is no backup any more"))
        #expect(promoted.contains("      pin       \(next)\n"))
        #expect(promoted.contains("all 1 passed") && !promoted.contains(warning))

        // The proxy has forwarded, each time, and the last rule is in force.
        let requests = try site.proxy.waitForTaskLines(2)
        #expect(requests.map { $0.integer("status") } == [200, 200])
        #expect(requests.map { $0.object("pinning")?["matched"] as? String } == [next, next])
        let spare = try FileManager.default.contentsOfDirectory(
            atPath: "\(site.folder.path)/spare keys"
        )
        #expect(spare == ["next.key"])
    }
}
