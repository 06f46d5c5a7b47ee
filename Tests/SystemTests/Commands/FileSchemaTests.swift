// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@testable import pinproxy

@Suite("Command line: the schemas of files that commands write", .onOwnThreads)
struct FileSchemaTests {
    @Test("a file names the installed schema, or the schema's own name", arguments: ["config", "pin-file"])
    func reference(name: String) throws {
        let file = Repository.folder.appendingPathComponent("docs/schema/\(name).schema.json")
        let schema = try #require(try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
        let one = try #require(FileSchema(rawValue: name))
        #expect(schema["$id"] as? String == one.identifier)
        if one.reference != one.identifier {
            let path = try #require(URL(string: one.reference)).path
            #expect(FileManager.default.fileExists(atPath: path))
        }
    }
}
