// SPDX-License-Identifier: Apache-2.0
package import StrictJSON

extension DocumentReader {
    /// A reader of a file; a file that cannot be read is an issue as well.
    ///
    /// - Parameter remedyIfEmpty: what to do about a file without a character but white space.
    package convenience init(file: String, remedyIfEmpty: String = "write it, or name another file") {
        switch FileContents.read(file, limit: JSONDocument.maximumBytes) {
        case .success(let bytes) where bytes.allSatisfy({ [0x09, 0x0A, 0x0D, 0x20].contains($0) }):
            self.init(
                file: file,
                issue: DocumentIssue(file: file, message: "the file is empty", remedy: remedyIfEmpty)
            )
        case .success(let bytes):
            self.init(JSONDocument(bytes: bytes, file: file))
            if FileContents.openness(file) != .closed {
                report(
                    "every user of this machine can write to it, and so decide which servers are trusted",
                    remedy: "chmod o-w \(file)"
                )
            }
        case .failure(let fault): self.init(file: file, issue: fault.issue(file: file))
        }
    }

    /// A path in the document, taken relative to the document's own folder.
    package func resolve(path: String) -> String {
        FileContents.resolve(path, relativeTo: file)
    }
}
