// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@testable import ProxyConfiguration

/// What the loader refuses and a JSON Schema can say, the schema says; `Tests/Schemas` makes the variants and compares.
@Suite("schemas and loader, on variants of correct files")
struct SchemaVariantTests {
    private static let program = Repository.folder.appendingPathComponent("Tests/Schemas/variants.py").path

    /// A Python that has the library jsonschema, Debian's own first.
    private static let python = ["/usr/bin/python3", "python3"].first { python in
        (try? Programs.run(python, ["-c", "import jsonschema"]))?.exitCode == 0
    }

    /// A library in Python validates thousands of documents.
    private static let seconds = 300.0

    /// A twelfth of the variants: the library takes 5 ms for each. `PINPROXY_SCHEMA_VARIANTS=all` tries all of them, as
    /// `.ci/run-long` does.
    private static let step = ProcessInfo.processInfo.environment["PINPROXY_SCHEMA_VARIANTS"] == "all" ? "1" : "12"

    /// The loader's errors of each document, without the file's name.
    private static func verdicts(_ documents: [Substring], _ errors: (String) throws -> [String]) throws -> String {
        try documents.map { try "[\(errors(String($0)).map(JSONString.quoted).joined(separator: ","))]\n" }.joined()
    }

    private static func compare(_ kind: String, _ errors: (String) throws -> [String]) throws {
        let python = try #require(python)
        let documents = try Programs.run(python, [program, "documents", kind, step], seconds: seconds).output
            .split(separator: "\n")
        try #require(documents.count > (step == "1" ? 1000 : 150))
        let folder = try TemporaryFolder()
        let file = try folder.write(try verdicts(documents, errors), as: "verdicts")
        let command = "exec \"$1\" \"$2\" compare \(kind) \(step) < \"$3\""
        let compared = try Programs.run("sh", ["-c", command, "sh", python, program, file], seconds: seconds)
        #expect(compared.exitCode == 0 && compared.output == "\n", "\(compared.output)\(compared.errors)")
        if let kept = ProcessInfo.processInfo.environment["PINPROXY_VERDICTS"] {
            try Data(contentsOf: URL(fileURLWithPath: file)).write(to: URL(fileURLWithPath: "\(kept)/\(kind)"))
        }
    }

    @Test("the configuration's schema refuses what the loader refuses", .enabled(if: python != nil))
    func configuration() throws {
        try Self.compare("config") { text in readConfiguration(text).issues.map { "\($0.pointer): \($0.message)" } }
    }

    @Test("the pin files' schema refuses what the loader refuses", .enabled(if: python != nil))
    func pinFiles() throws {
        let now: Int64 = 1_800_000_000
        let pki = try TestPKI()
        let server = try pki.server("api.example.com")
        let folder = try TemporaryFolder()
        let list = try RevocationListBuilder(validity: (now - 1000)..<(now + 1000)).pem(issuer: pki.intermediate)
        for (name, text) in [
            ("server.pem", server.chainPEM), ("server.key", server.privateKeyPEM), ("list.pem", list),
            ("root.pem", pki.root.certificate.pem), ("intermediate.pem", pki.intermediate.certificate.pem),
        ] {
            _ = try folder.write(text, as: name)
        }
        let library = TrustAnchorLibrary()
        try Self.compare("pin-file") { text in
            do throws(DocumentIssues) {
                _ = try PinFile.load(text: text, file: "\(folder.path)/p.json", at: now, library: library)
                return []
            } catch {
                return error.issues.map { "\($0.pointer): \($0.message)" }
            }
        }
    }
}
