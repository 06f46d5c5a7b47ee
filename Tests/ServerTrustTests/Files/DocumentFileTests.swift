// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import StrictJSON
import Testing

@Suite("Documents in files")
struct DocumentFileTests {
    @Test("a missing file is an issue that names it")
    func missingFile() {
        let reader = DocumentReader(file: "/nonexistent/config.json")
        #expect(reader.root == nil)
        #expect(
            reader.issues.map(\.description) == [
                "/nonexistent/config.json: cannot be read: No such file or directory (name a file that exists)"
            ]
        )
    }

    @Test("paths are taken relative to the document's folder")
    func paths() {
        #expect(FileContents.resolve("a.pem", relativeTo: "pins/x.json") == "pins/a.pem")
        #expect(FileContents.resolve("/a.pem", relativeTo: "pins/x.json") == "/a.pem")
        #expect(FileContents.resolve("a.pem", relativeTo: "x.json") == "a.pem")
    }
}
