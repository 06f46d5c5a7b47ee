// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@Suite("The folder of pin files")
struct PinFolderTests {
    private let folder: TemporaryFolder
    private static let now: Int64 = 1_800_000_000

    init() throws {
        folder = try TemporaryFolder()
        try write("api.json")
    }

    private var pins: String { "\(folder.path)/pins" }

    private func write(_ name: String, _ domain: String = "api.example.com") throws {
        try folder.write(PinFileText.pinning(domain, to: .unrelated(2)), as: "pins/\(name)")
    }

    private func load() throws -> PinFile.Loaded { try PinFile.load(path: pins, at: Self.now) }

    private func issues() throws -> [DocumentIssue] {
        do {
            _ = try load()
            return []
        } catch let issues as DocumentIssues {
            return issues.issues
        }
    }

    @Test(
        "an unread file with a pin file's name is an error",
        arguments: ["T.JSON", "t.Json", "t.json5", "t.jsonc", "t.JSONC", "t.json ", "json"]
    )
    func almostPinFiles(name: String) throws {
        #expect(try load().domains.domains.count == 1)
        try write(name, "other.example.com")
        let issues = try issues()
        #expect(issues.count == 1)
        let issue = try #require(issues.first)
        #expect(issue.file == "\(pins)/\(name)" && issue.message.contains("not read"), "\(issue)")
        #expect(issue.remedy.contains(".json"))
        #expect(rename("\(pins)/\(name)", "\(pins)/t.json") == 0)
        #expect(try load().domains.domains.count == 2)
        #expect(try load().warnings.isEmpty)
    }

    @Test(
        "put-aside copies are a warning",
        arguments: ["t.json.bak", "t.json~", "t.json.disabled", "T.JSON.old"]
    )
    func copies(name: String) throws {
        #expect(try load().warnings.isEmpty)
        try write(name, "other.example.com")
        let warnings = try load().warnings
        #expect(warnings.count == 1)
        #expect(warnings.first?.file == "\(pins)/\(name)" && warnings.first?.message.contains("not read") == true)
    }

    @Test("a sub-folder with pin files is a warning, one with certificates is not")
    func subfolders() throws {
        try folder.write("certificate", as: "pins/certs/api.pem")
        try folder.write("list", as: "pins/certs/ca.crl")
        try FileManager.default.createDirectory(atPath: "\(pins)/empty", withIntermediateDirectories: true)
        #expect(try load().warnings.isEmpty)
        try write("team/b.json", "other.example.com")
        try write("team/c.json", "third.example.com")
        let warnings = try load().warnings
        #expect(warnings.count == 1)
        #expect(warnings.first?.file == "\(pins)/team", "\(warnings)")
        #expect(warnings.first?.message.contains("2 pin files") == true && warnings.first?.remedy.isEmpty == false)
    }

    @Test("files of a ConfigMap, hidden files and others cause no message")
    func silence() throws {
        let text = PinFileText.pinning("map.example.com", to: .unrelated(2))
        try folder.write(text, as: "pins/..2026_11_22_07_00_00.123456/map.json")
        func link(_ name: String, _ destination: String) throws {
            try FileManager.default.createSymbolicLink(atPath: "\(pins)/\(name)", withDestinationPath: destination)
        }
        try link("..data", "..2026_11_22_07_00_00.123456")
        try link("map.json", "..data/map.json")
        for name in [".api.json.swp", ".hidden.JSON", "README.md", "client.pem", "client.key", "ca.crl", "4913"] {
            try folder.write("x", as: "pins/\(name)")
        }
        let loaded = try load()
        #expect(loaded.domains.domains.map(\.host.description).sorted() == ["api.example.com", "map.example.com"])
        #expect(loaded.warnings.isEmpty, "\(loaded.warnings)")
    }

    // MARK: Who may write

    @Test("without a time the warnings are those of now")
    func moment() throws {
        #expect(try PinFile.load(path: pins).warnings.isEmpty)
        let text = PinFileText.pinning("old.example.com", to: .unrelated(2))
            .replacing("\"pinningMode\"", with: "\"expiration\": \"2020-01-31\", \"pinningMode\"")
        try folder.write(text, as: "pins/old.json")
        #expect(try PinFile.load(path: pins, at: 0).warnings.isEmpty)
        #expect(try PinFile.load(path: pins).warnings.map(\.file) == ["\(pins)/old.json"])
    }

    @Test("a pin file that everybody may write is an error")
    func openFile() throws {
        let path = "\(pins)/api.json"
        for mode in [0o602, 0o666, 0o777] as [mode_t] {
            #expect(chmod(path, mode) == 0)
            for place in [pins, path] {
                let issues = #expect(throws: DocumentIssues.self) { try PinFile.load(path: place, at: Self.now) }
                #expect(issues?.issues.map(\.file) == [path])
                #expect(issues?.issues.first?.remedy == "chmod o-w \(path)")
            }
        }
        for mode in [0o600, 0o644, 0o664] as [mode_t] {
            #expect(chmod(path, mode) == 0)
            #expect(try load().warnings.isEmpty)
        }
    }

    @Test("a folder that everybody may write is an error, or a sticky warning")
    func openFolder() throws {
        #expect(chmod(pins, 0o777) == 0)
        let issues = try issues()
        #expect(issues.map(\.file) == [pins] && issues.first?.remedy.contains("chmod o-w") == true, "\(issues)")
        #expect(chmod(pins, 0o1777) == 0)
        let warnings = try load().warnings
        #expect(warnings.map(\.file) == [pins] && warnings.first?.message.contains("add pin files") == true)
        #expect(chmod(pins, 0o775) == 0)
        #expect(try load().warnings.isEmpty)
    }

    @Test("a client's private key that everybody may read is a warning")
    func readableKey() throws {
        let pki = try TestPKI()
        var builder = CertificateBuilder.server(hosts: ["client"], validity: TestPKI.validity)
        builder.extendedKeyUsage = ["clientAuth"]
        let client = try pki.server(builder)
        _ = try client.write(to: folder, name: "pins/client")
        try folder.write(
            """
            { "version": 1, "pinnedDomains": { "api.example.com": { "pinningMode": "none",
              "clientCertificate": { "certificate": "client.pem", "key": "client.key" } } } }
            """,
            as: "pins/api.json"
        )
        for mode in [0o600, 0o640, 0o440] as [mode_t] {
            #expect(chmod("\(pins)/client.key", mode) == 0)
            #expect(try load().warnings.isEmpty)
        }
        #expect(chmod("\(pins)/client.key", 0o644) == 0)
        let warnings = try load().warnings
        #expect(warnings.count == 1)
        #expect(warnings.first?.pointer == "/pinnedDomains/api.example.com/clientCertificate/key")
        #expect(warnings.first?.message.contains("private key") == true)
    }

    // MARK: What checks nothing

    @Test("a set of backup pins alone is a warning")
    func onlyBackups() throws {
        func warnings(_ second: String) throws -> [DocumentIssue] {
            try folder.write(
                """
                { "version": 1, "pinnedDomains": { "api.example.com": { "pins": [
                  { "spki-sha256": "\(PublicKeyPin.unrelated(1))", "backup": true }, \(second) ] } } }
                """,
                as: "pins/api.json"
            )
            return try load().warnings
        }
        let all = try warnings("{ \"spki-sha256\": \"\(PublicKeyPin.unrelated(2))\", \"backup\": true }")
        #expect(all.count == 1)
        #expect(all.first?.pointer == "/pinnedDomains/api.example.com/pins")
        #expect(all.first?.message.contains("backup") == true)
        #expect(try warnings("\"\(PublicKeyPin.unrelated(2))\"").isEmpty)
    }
}
