// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import TestSupport
import Testing

@Suite("Command line: files that commands write", .onOwnThreads)
struct CommandLineFileTests {
    private let folder: TemporaryFolder
    private let origin: ScriptedOrigin
    private static let body = String(repeating: "0123456789", count: 30_000)

    init() throws {
        folder = try TemporaryFolder()
        origin = try ScriptedOrigin(try Stage.pki.server(Stage.host)) { request in
            request.target == "/none"
                ? OriginResponse.text("no", status: "404 Not Found") : OriginResponse.text(Self.body)
        }
        try folder.write(Stage.pki.root.certificate.pem, as: "anchors.pem")
    }

    private func path(_ name: String) -> String { "\(folder.path)/\(name)" }

    private func kind(_ name: String) -> mode_t {
        var status = stat()
        return lstat(path(name), &status) == 0 ? status.st_mode & S_IFMT : 0
    }

    private func mode(_ name: String) -> mode_t {
        var status = stat()
        return stat(path(name), &status) == 0 ? status.st_mode & 0o777 : 0
    }

    private func text(_ name: String) throws -> String { try String(contentsOfFile: path(name), encoding: .utf8) }

    private func words(_ output: String, _ target: String = "/") -> [String] {
        [
            "fetch", "--anchors", path("anchors.pem"), "--connect", "127.0.0.1:\(origin.port)", "-o", output,
            "https://\(Stage.host)\(target)",
        ]
    }

    // Not the system's own /dev/null: a proxy with the fault would replace it for everybody.
    @Test("fetch -o writes to a device and leaves it a device", .enabled(if: geteuid() == 0))
    func device() throws {
        let made = try Programs.run("mknod", [path("null"), "c", "1", "3"])
        try #require(made.exitCode == 0, "\(made.errors)")
        let finished = try pinproxy(words(path("null")))
        #expect(kind("null") == S_IFCHR)
        #expect(finished.exitCode == 0 && finished.output.isEmpty, "\(finished.errors)")
        symlink("null", path("link"))
        #expect(try pinproxy(words(path("link"))).exitCode == 0)
        #expect(kind("null") == S_IFCHR && kind("link") == S_IFLNK)
    }

    @Test("fetch -o streams a good response to a FIFO, and no other")
    func fifo() throws {
        try #require(mkfifo(path("fifo"), 0o600) == 0)
        for (target, expected, code) in [("/", Self.body, 0), ("/none", "", 1)] as [(String, String, Int32)] {
            let reader = try ChildProcess(try Programs.path(of: "cat"), [path("fifo")])
            let finished = try pinproxy(words(path("fifo"), target) + ["--json"])
            #expect(finished.exitCode == code, "\(finished.errors)")
            #expect(kind("fifo") == S_IFIFO)
            guard kind("fifo") == S_IFIFO else { return }
            #expect(try reader.waitForExit().output == expected)
            #expect(finished.output.contains("\"file\":") == (code == 0), "\(finished.output)")
        }
        let refused = try pinproxy(words(path("fifo")) + ["-C", "-"])
        #expect(refused.exitCode == 64 && refused.errors.contains("goes on with a file"), "\(refused.errors)")
    }

    @Test("fetch -o follows symbolic links and keeps a file's mode")
    func links() throws {
        try folder.write("old", as: "other/file")
        chmod(path("other/file"), 0o664)
        symlink("other/file", path("link"))
        symlink("other/new", path("dangling"))
        for (link, end) in [("link", "other/file"), ("dangling", "other/new")] {
            let finished = try pinproxy(words(path(link)))
            #expect(finished.exitCode == 0, "\(finished.errors)")
            #expect(kind(link) == S_IFLNK)
            #expect(try text(end) == Self.body)
        }
        let mask = umask(0)
        umask(mask)
        #expect(mode("other/file") == 0o664 && mode("other/new") == 0o666 & ~mask)
        #expect(try FileManager.default.contentsOfDirectory(atPath: path("other")).sorted() == ["file", "new"])
    }

    @Test("fetch -o - and -o /dev/stdout mean the standard output")
    func standardOutput() throws {
        #expect(try pinproxy(words("-")).output == Self.body)
        #expect(try pinproxy(words("/dev/stdout")).output == Self.body)
        let program = try Programs.built("pinproxy")
        let script = "echo before >\"$0\"; \"$@\" >>\"$0\""
        let finished = try Programs.run("/bin/sh", ["-c", script, path("out"), program] + words("/dev/stdout"))
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(try text("out") == "before\n" + Self.body)
    }

    @Test("fetch -o to a missing folder ends with 73, with the reason")
    func noFile() throws {
        for (name, reason) in [(".", "Is a directory"), ("none/file", "No such file or directory")] {
            let finished = try pinproxy(words(path(name)))
            #expect(finished.exitCode == 73 && finished.errors.contains(reason), "\(finished.errors)")
        }
    }

    // MARK: Pin files

    private func show(_ words: String...) throws -> Programs.Finished {
        try pinproxy(
            ["pins", "show", "--anchors", path("anchors.pem"), "--connect", "127.0.0.1:\(origin.port)"] + words
                + [Stage.host]
        )
    }

    @Test("pins show --pin-file=FILE writes a whole file of mode 0644, or none")
    func pinFile() throws {
        let printed = try show("--pin-file")
        let finished = try show("--pin-file=\(path("pins.json"))")
        #expect(finished.exitCode == 0 && finished.output.isEmpty, "\(finished.errors)")
        #expect(try text("pins.json") == printed.output && mode("pins.json") == 0o644)
        _ = try PinFile.load(path: path("pins.json"), at: 1_800_000_000)
        // An existing one stays as it is, and a key without its pin file goes.
        let before = try text("pins.json")
        let broken = try pinproxy("pins", "show", "--pin-file=\(path("pins.json"))", "127.0.0.1:1")
        #expect(broken.exitCode == 1)
        #expect(try text("pins.json") == before)
        let key = try show("--pin-file=\(path("none/pins.json"))", "--new-backup-key", path("key"))
        #expect(!key.errors.contains("Pinned"), "nothing is pinned by a file that is not there: \(key.errors)")
        #expect(key.exitCode == 1 && key.errors.contains("No such file or directory"), "\(key.errors)")
        #expect(!FileManager.default.fileExists(atPath: path("key")))
        #expect(try show("--pin-file=").exitCode == 64)
    }

    @Test("an empty pin file has its own message and remedy")
    func emptyPinFile() throws {
        var settings = ProxySettings(trusting: Stage.pki)
        settings.pin("other.test", to: .unrelated(3))
        settings.files["pins/api.json"] = "\n"
        let finished = try pinproxy("check", settings.write(to: folder))
        #expect(finished.exitCode == 78)
        let name = path("pins/api.json")
        #expect(finished.errors.contains("\(name): the file is empty"), "\(finished.errors)")
        #expect(finished.errors.contains("pinproxy pins show --pin-file=\(name) HOST"), "\(finished.errors)")
    }

    @Test("pins show --config uses the configuration's resolve and anchors")
    func showByConfiguration() throws {
        var settings = ProxySettings(trusting: Stage.pki)
        settings.resolve(Stage.host, to: origin.port)
        settings.members["unpinnedHosts"] = "deny"
        settings.pin("other.test", to: .unrelated(3))
        let config = try settings.write(to: folder)
        func show(_ words: String...) throws -> Programs.Finished {
            try pinproxy(["pins", "show", "--config", config] + words)
        }
        let found = try show(Stage.host)
        #expect(found.exitCode == 0, "\(found.errors)")
        #expect(found.output.contains("The chain is VALID"))
        // A pin file with an error does not keep it from being mended.
        try folder.write("", as: "pins/broken.json")
        let mended = try show("--pin-file=\(path("pins/broken.json"))", Stage.host)
        #expect(mended.exitCode == 0 && mended.errors.contains("are left out here"), "\(mended.errors)")
        #expect(try pinproxy("check", "--load", config).exitCode == 0)
        settings.members["access"] = ["denyHosts": [Stage.host]]
        _ = try settings.write(to: folder)
        #expect(try show(Stage.host).exitCode == 77)
        #expect(try show("--anchors", path("anchors.pem"), Stage.host).exitCode == 64)
    }

    @Test("pins show --config goes through the host's upstream proxy")
    func showByProxy() throws {
        let proxy = try TunnelProxy(to: origin.port)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.hosts[Stage.host] = ["upstreamProxy": "http://127.0.0.1:\(proxy.port)"]
        let finished = try pinproxy("pins", "show", "-c", settings.write(to: folder), "--json", Stage.host)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.output.contains("\"valid\":true"))
    }
}
