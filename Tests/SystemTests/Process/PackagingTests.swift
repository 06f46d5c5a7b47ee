// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("Packaging: what is installed beside the program", .onOwnThreads)
struct PackagingTests {
    // Tests/SystemTests/ and this file.
    private let repository = Repository.folder
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func make(_ target: String, prefix: String) throws -> Programs.Finished {
        try Programs.run(
            try Programs.path(of: "make"),
            [
                "--no-print-directory", "-C", repository.path, target, "PREFIX=\(prefix)", "DESTDIR=\(folder.path)",
                "BINARY=\(try Programs.built("pinproxy"))",
            ]
        )
    }

    private func text(_ path: String) throws -> String {
        try String(contentsOfFile: folder.path + path, encoding: .utf8)
    }

    /// The text without what roff takes for its own.
    private func plain(_ page: String) -> String {
        page.replacing(/\\f[BIR]/, with: "").replacing("\\-", with: "-").replacing("\\(aq", with: "'")
    }

    @Test("unit, schema and example name existing places below the prefix", arguments: ["/usr", "/usr/local"])
    func places(prefix: String) throws {
        let made = try make("install", prefix: prefix)
        #expect(made.exitCode == 0, "\(made.errors)")
        let unit = try text("\(prefix)/lib/systemd/system/pinproxy.service")
        let page = try #require(unit.firstMatch(of: /Documentation=.*file:\/\/(\S+)/)?.1)
        let program = try #require(unit.firstMatch(of: /ExecStart=(\S+)/)?.1)
        let schemas = try ["config.json", "../doc/pinproxy/examples/config.example.json"].map { name in
            let configuration = try text("\(prefix)/share/pinproxy/\(name)")
            return try #require(configuration.firstMatch(of: /"\$schema": "file:\/\/([^"]+)"/)?.1)
        }
        for path in [page, program] + schemas {
            #expect(
                path.hasPrefix("\(prefix)/") && FileManager.default.fileExists(atPath: folder.path + path),
                "\(path)"
            )
        }
        #expect(try text("\(prefix)/lib/sysusers.d/pinproxy.conf").contains("u pinproxy "))
        #expect(unit.contains("User=pinproxy\n"))
        let symbols = try Programs.run("readelf", ["--sections", "--wide", folder.path + program]).output
        #expect(!symbols.contains(".symtab") && !symbols.contains(".debug_info"))
        #expect(try make("uninstall", prefix: prefix).exitCode == 0)
        let left = FileManager.default.enumerator(atPath: folder.path)?.compactMap { $0 as? String } ?? []
        #expect(
            left.allSatisfy { name in
                var isFolder: ObjCBool = false
                return FileManager.default.fileExists(atPath: "\(folder.path)/\(name)", isDirectory: &isFolder)
                    && isFolder.boolValue
            }
        )
    }

    @Test(
        "the unit's reload signals the process, and fails for bad files",
        arguments: [true, false]
    )
    func reload(isGood: Bool) throws {
        let unit = try String(
            contentsOfFile: repository.appendingPathComponent("deploy/pinproxy.service").path,
            encoding: .utf8
        )
        // A set that has ended keeps no other change from being read.
        let pins = ([1, 2] as [UInt8]).map { "\"\(PublicKeyPin.unrelated($0))\"" }.joined(separator: ", ")
        try folder.write(
            "{\"version\": 1, \"pinnedDomains\": {\"old.test\": {\"pins\": [\(pins)], \"expiration\": \"2020-01-31\"}}}",
            as: "pins/old.json"
        )
        let path = try folder.write(
            "{\"version\": 1, \"pins\": \"pins\", \"listeners\": [{\"address\": \"127.0.0.1:0\", \"mode\": \"forward\"}]\(isGood ? "" : ", \"x\": 1")}",
            as: "config.json"
        )
        let command = try #require(unit.firstMatch(of: /ExecReload=(.*)/)?.1)
            .replacing("/usr/local/bin/pinproxy", with: try Programs.built("pinproxy"))
            .replacing("/etc/pinproxy/config.json", with: path)
        // The shell ends the process at the signal, and tells its number.
        let script = """
            sleep 600 & export MAINPID=$!
            \(command)
            echo "$?"
            kill -TERM $MAINPID 2>/dev/null
            wait $MAINPID
            echo "$?"
            """
        let finished = try Programs.run("sh", ["-c", script])
        #expect(finished.output == (isGood ? "0\n129\n" : "78\n143\n"), "\(finished.errors)")
        #expect(finished.errors.contains("unknown key") != isGood)
    }

    @Test("the package's configuration starts with the pin file beside it")
    func configuration() throws {
        try FileManager.default.createDirectory(atPath: "\(folder.path)/pins", withIntermediateDirectories: true)
        for name in ["deploy/config.json", "pins/api.example.com.json"] {
            let place = name.hasPrefix("pins/") ? name : "config.json"
            try FileManager.default.copyItem(
                atPath: repository.appendingPathComponent(name).path,
                toPath: "\(folder.path)/\(place)"
            )
        }
        let checked = try pinproxy("check", "--config", "\(folder.path)/config.json")
        #expect(checked.exitCode == 0 && checked.errors.isEmpty, "\(checked.errors)")
    }

    @Test("the configurations for Kubernetes are valid", arguments: ["configuration", "egress"])
    func kubernetes(name: String) throws {
        let source = repository.appendingPathComponent("deploy/kustomize/\(name)").path
        try FileManager.default.copyItem(atPath: "\(source)/pins", toPath: "\(folder.path)/pins")
        let text = try String(contentsOfFile: "\(source)/config.json", encoding: .utf8)
        #expect(text.contains("\"/etc/pinproxy-pins\""))
        let path = try folder.write(text.replacing("/etc/pinproxy-pins", with: "pins"), as: "config.json")
        let checked = try pinproxy("check", "--config", path)
        #expect(checked.exitCode == 0, "\(checked.errors)")
        #expect(checked.errors.contains("whoever reaches 0.0.0.0:8080 can use this proxy") == (name == "egress"))
        #expect(checked.output.contains("\napi.example.com\n"))
        #expect(checked.output.contains("unpinned hosts    denied"))
        // What the listener allows is what the NetworkPolicy beside it bounds.
        #expect(text.contains("\"allowRemoteClients\": true") == (name == "egress"))
    }

    @Test("a bill of materials has each library's licence, and is reproducible")
    func materials() throws {
        let archive = try folder.write("an archive", as: "program.tar.xz")
        let script = repository.appendingPathComponent("deploy/bill_of_materials.py").path
        var environment = Programs.environment
        environment["SOURCE_DATE_EPOCH"] = "1700000000"
        // In Debian 13 dpkg also tells that the loader's old place is diverted.
        _ = try folder.writeProgram(
            """
            #!/bin/sh
            \(try Programs.path(of: "dpkg-query")) "$@"
            status=$?
            if [ "$1" = -S ]; then
                shift
                for path in "$@"; do
                    echo "diversion by libc6 from: $path"
                    echo "diversion by libc6 to: $path.usr-is-merged"
                done
            fi
            exit $status

            """,
            as: "dpkg-query"
        )
        environment["PATH"] = "\(folder.path):\(environment["PATH"] ?? "")"
        // A program of Debian: that of a debug build loads libraries that are in no package.
        let program = try Programs.path(of: "openssl")
        let made = try (0..<2).map { _ in
            let finished = try Programs.run(
                "python3",
                [script, archive, "0.1.0", program],
                environment: environment
            )
            #expect(finished.exitCode == 0, "\(finished.errors)")
            return try text("/program.spdx.json")
        }
        #expect(made[0] == made[1])
        let document = try object(made[0])
        let packages = try #require(document["packages"] as? [[String: Any]])
        let quoted = (document["hasExtractedLicensingInfos"] as? [[String: Any]] ?? []).compactMap { $0["licenseId"] }
        let known = Set(quoted.compactMap { $0 as? String })
        #expect(packages.contains { $0["name"] as? String == "libc6" })
        for package in packages {
            let licence = try #require(package["licenseDeclared"] as? String)
            #expect(!licence.isEmpty && licence != "NOASSERTION", "\(package)")
            for name in licence.matches(of: /LicenseRef-[A-Za-z0-9.-]+/) {
                #expect(known.contains(String(name.output)))
            }
        }
        let relations = try #require(document["relationships"] as? [[String: String]])
        #expect(relations.count == packages.count, "each is described, contained, linked or needed: \(relations)")
    }

    @Test("the manual pages have every command, option and key")
    func manualPages() throws {
        let made = try make("install", prefix: "/usr")
        #expect(made.exitCode == 0, "\(made.errors)")
        let program = plain(try text("/usr/share/man/man1/pinproxy.1"))
        let tables = try object(try pinproxy("help", "--json").output)
        for command in try #require(tables["commands"] as? [[String: Any]]) {
            #expect(program.contains(".SS \(try #require(command["name"] as? String))\n"))
            for option in try #require(command["options"] as? [[String: Any]]) {
                #expect(program.contains("--\(try #require(option["name"] as? String))"))
            }
        }
        for (page, schema) in [("pinproxy.json.5", "config"), ("pinproxy-pins.5", "pin-file")] {
            let text = plain(try text("/usr/share/man/man5/\(page)"))
            let path = repository.appendingPathComponent("docs/schema/\(schema).schema.json").path
            let keys = keys(of: try object(try String(contentsOfFile: path, encoding: .utf8)))
            #expect(keys.count > 20)
            for key in keys { #expect(text.contains("\n\(key) ("), "\(page): \(key)") }
        }
    }

    /// The names of all members that a schema describes.
    private func keys(of schema: Any) -> Set<String> {
        if let list = schema as? [Any] { return list.reduce(into: []) { $0.formUnion(keys(of: $1)) } }
        guard let object = schema as? [String: Any] else { return [] }
        var found: Set<String> = []
        for (name, value) in object {
            // Conditions repeat members to bind them; the members themselves stand elsewhere.
            if ["if", "then", "allOf", "oneOf", "not", "anyOf"].contains(name), !(value is [[String: Any]]) {
                continue
            }
            if ["allOf", "oneOf"].contains(name) { continue }
            if name == "properties", let members = value as? [String: Any] { found.formUnion(members.keys) }
            found.formUnion(keys(of: value))
        }
        return found
    }

    @Test(
        "bash completes commands, second words, options and files",
        arguments: [
            ("pinproxy pi", "pins"),
            ("pinproxy pins sh", "show"),
            ("pinproxy pins show --js", "--json"),
            ("pinproxy run --config f", "file.json"),
            ("pinproxy run --config = f", "file.json"),
            ("pinproxy run f", "file.json"),
            ("pinproxy check -c f", "file.json"),
            ("pinproxy pins show --pin-file = f", "file.json"),
            ("pinproxy exec --config file.json -- tru", "true"),
            ("pinproxy fetch -o f", "file.json"),
        ]
    )
    func completesInBash(line: String, word: String) throws {
        let tables = try folder.write(try pinproxy("help", "--json").output, as: "tables")
        _ = try folder.write("", as: "file.json")
        let script = """
            set -eu
            cd '\(folder.path)'
            '\(repository.appendingPathComponent("deploy/completions").path)' share < '\(tables)'
            source share/bash-completion/completions/pinproxy
            compopt() { :; }
            COMP_WORDS=(\(line)); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            _pinproxy
            printf '%s\\n' "${COMPREPLY[@]}"
            """
        let finished = try Programs.run("bash", ["-c", script])
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.output.split(separator: "\n").contains { $0 == word }, "\(finished.output)")
    }

    private func object(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }
}
