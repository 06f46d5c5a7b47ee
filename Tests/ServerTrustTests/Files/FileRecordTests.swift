// SPDX-License-Identifier: Apache-2.0
import Foundation
import IOCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@Suite("File records")
struct FileRecordTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        try folder.write(PinFileText.pinning("api.example.com", to: .unrelated(2)), as: "pins/a.json")
    }

    private var pins: String { "\(folder.path)/pins" }

    private func record() -> FileRecord {
        FileRecord.recording { try? PinFile.load(path: pins, at: 0) }.1
    }

    @Test("a record is current until something else would be read")
    func changes() throws {
        let changes: [() throws -> Void] = [
            { try folder.write(PinFileText.pinning("api.example.com", to: .unrelated(3)), as: "pins/a.json") },
            { try folder.write("{}", as: "pins/b.json") },
            { try FileManager.default.removeItem(atPath: "\(pins)/b.json") },
            { try FileManager.default.removeItem(atPath: pins) },
            { try folder.write("{}", as: "pins/a.json") },
        ]
        for (number, change) in changes.enumerated() {
            let record = record()
            #expect(record.isCurrent, "\(number)")
            try change()
            #expect(!record.isCurrent, "\(number)")
        }
    }

    @Test("the same bytes written again are no change")
    func sameBytes() throws {
        let record = record()
        let text = try String(contentsOfFile: "\(pins)/a.json", encoding: .utf8)
        try FileManager.default.removeItem(atPath: "\(pins)/a.json")
        #expect(!record.isCurrent)
        try folder.write(text, as: "pins/a.json")
        #expect(record.isCurrent)
    }

    @Test("files that a pin file names are in it, those that are missing too")
    func referenced() throws {
        let text = """
            { "version": 1, "pinnedDomains": { "api.example.com": {
              "pinningMode": "certificate", "pinnedCertificates": ["certs/missing.pem"] } } }
            """
        try folder.write(text, as: "pins/a.json")
        let record = record()
        #expect(record.files == ["\(pins)/a.json", "\(pins)/certs/missing.pem"])
        try folder.write("anything", as: "pins/certs/missing.pem")
        #expect(!record.isCurrent)
    }

    @Test("a file that was read twice with different contents is never current")
    func torn() throws {
        let (_, record) = FileRecord.recording {
            _ = FileContents.read("\(pins)/a.json", limit: 1000)
            _ = try? folder.write("{}", as: "pins/a.json")
            _ = FileContents.read("\(pins)/a.json", limit: 1000)
        }
        #expect(!record.isCurrent)
    }

    @Test("a file of any size up to the limit is read whole")
    func sizes() throws {
        for count in [0, 1, 65_535, 65_536, 65_537, 200_000] {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            let path = try folder.write(bytes: bytes, as: "file")
            let read = FileContents.read(path, limit: max(1, count))
            let isWhole = try read.get() == bytes
            #expect(isWhole, "\(count)")
            guard count > 1 else { continue }
            #expect(throws: FileContents.Fault.self) { try FileContents.read(path, limit: count - 1).get() }
        }
        #expect(try FileContents.read("/proc/self/status", limit: 1 << 20).get().starts(with: "Name:".utf8))
    }

    @Test("one document of pin files is in memory at a time")
    func oneDocument() throws {
        let readers = ["a", "b"].map { name in
            let text = PinFileText.pinning("\(name).example.com", to: .unrelated(2))
            return DocumentReader(JSONDocument(text: text, file: "\(name).json"))
        }
        let library = TrustAnchorLibrary()
        let loaded = try PinFile.load(readers: readers, at: 0, library: library)
        #expect(loaded.domains.domains.count == 2 && loaded.files == ["a.json", "b.json"])
        #expect(readers.allSatisfy { $0.rootObject() == nil })
        let bad = DocumentReader(JSONDocument(text: "{}", file: "c.json"))
        #expect(throws: DocumentIssues.self) { try PinFile.load(readers: [bad], at: 0, library: library) }
        #expect(bad.rootObject() == nil && !bad.issues.isEmpty)
    }

    @Test("folders of pin files are watched whole, others for the names that matter")
    func folders() throws {
        let root = try #require(PathLookup(folder.path).destination)
        let folders = record().watchedFolders
        #expect(folders["\(root)/pins"] == .all)
        #expect(folders[root]?.contains("pins") == true)
        #expect(folders[root]?.contains("task.log") == false)
    }

    @Test("reads outside of a recording are in no record")
    func outside() throws {
        let (_, record) = FileRecord.recording {}
        _ = FileContents.read("\(pins)/a.json", limit: 1000)
        #expect(record.files.isEmpty)
    }
}
