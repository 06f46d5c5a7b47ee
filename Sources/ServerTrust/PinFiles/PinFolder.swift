import StrictJSON

/// A folder of pin files: which of its names are read, and which look as if they should have been.
struct PinFolder {
    /// The paths of the pin files, in the order of their names.
    private(set) var files: [String] = []
    private(set) var issues: [DocumentIssue] = []
    private(set) var warnings: [DocumentIssue] = []

    /// Blocking disk I/O.
    ///
    /// - Parameter names: as `FileContents.names` has them, without the hidden ones: what a ConfigMap lays out
    ///   (`..data`, `..2026_11_22_…`) and what editors leave are nothing to speak of.
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

    /// A file whose name is no pin file's.
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
                    message: "a copy of a pin file, it seems, which is not read",
                    remedy: "move it elsewhere; the names of pin files end in .json"
                )
            )
        }
    }

    /// Sub-folders are not read: those of certificates and lists belong to pin files, and say nothing by themselves.
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
