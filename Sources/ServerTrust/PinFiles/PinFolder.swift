// SPDX-License-Identifier: Apache-2.0
import StrictJSON

/// A folder of pin files: the names that are read, and warnings about names that look like pin files and are not read.
struct PinFolder {
    /// The paths of the pin files, in the order of their names.
    private(set) var files: [String] = []
    private(set) var issues: [DocumentIssue] = []
    private(set) var warnings: [DocumentIssue] = []

    /// Blocking disk I/O.
    ///
    /// - Parameter names: from `FileContents.names`, which leaves out hidden ones such as those of a ConfigMap
    ///   (`..data`, `..2026_11_22_…`) and of editors.
    init(path: String, names: [String]) {
        let folder = path.hasSuffix("/") ? path : path + "/"
        for name in names {
            if name.hasSuffix(".json") {
                files.append(folder + name)
            } else if FileContents.isFolder(folder + name) {
                look(into: folder + name)
            } else {
                reportIgnoredFile(name, folder + name)
            }
        }
        switch FileContents.openness(path) {
        case .closed: break
        case .sticky:
            warnings.append(
                DocumentIssue(
                    file: path,
                    message: "every user of this machine can add pin files to this folder",
                    remedy: "chmod o-w \(path)"
                )
            )
        case .open:
            issues.append(
                DocumentIssue(
                    file: path,
                    message: "every user of this machine can put pin files into this folder, and take them away",
                    remedy: "chmod o-w \(path), or use a folder in it of mode 0755"
                )
            )
        }
    }

    /// Reports a file that looks like a pin file and is not read because of its name.
    private mutating func reportIgnoredFile(_ name: String, _ path: String) {
        let lower = name.lowercased()
        var stem = Substring(lower)
        while stem.last == " " { stem.removeLast() }
        if stem == "json" || [".json", ".json5", ".jsonc"].contains(where: { stem.hasSuffix($0) }) {
            issues.append(
                DocumentIssue(
                    file: path,
                    message: "it looks like a pin file, and is not read",
                    remedy: "rename it: the names of pin files end in .json, in lower case; or move it elsewhere"
                )
            )
        } else if lower.contains(".json") {
            warnings.append(
                DocumentIssue(
                    file: path,
                    message: "it looks like a copy of a pin file, and is not read",
                    remedy: "move it elsewhere; the names of pin files end in .json"
                )
            )
        }
    }

    /// Reports pin files in a sub-folder, which are not read. Sub-folders may hold certificates and revocation lists
    /// that pin files name.
    private mutating func look(into path: String) {
        guard case .success(let names) = FileContents.names(inFolder: path) else { return }
        let count = names.count { $0.lowercased().hasSuffix(".json") }
        guard count > 0 else { return }
        warnings.append(
            DocumentIssue(
                file: path,
                message: count == 1
                    ? "a pin file in this sub-folder is not read"
                    : "\(count) pin files in this sub-folder are not read",
                remedy: "move them up: pin files stand in the folder itself"
            )
        )
    }
}
