import Glibc

/// One name in a folder.
package struct FolderEntry: Hashable, Sendable {
    package var folder: String
    package var name: String

    package init(folder: String, name: String) {
        self.folder = folder
        self.name = name
    }
}

/// The way from a path to a file, through the symbolic links on it.
package struct PathLookup: Hashable, Sendable {
    /// The entries whose change leads the path elsewhere, in the order of the way: each symbolic link, the file itself,
    /// and the folder that it stands in. When the way breaks off, the entry that is not there is the last.
    package private(set) var entries: [FolderEntry] = []
    /// The path without symbolic links; nil when nothing is there.
    package private(set) var destination: String?

    /// Follows as many links as Linux does.
    private static let linksAtMost = 40

    /// Looks at the disk: never on a loop.
    package init(_ path: String) {
        var left = Self.names(path)
        var folder = path.hasPrefix("/") ? "/" : "."
        /// Where `folder` itself is entered.
        var folderEntry: FolderEntry?
        var links = 0
        while let name = left.popLast() {
            if name == ".." {
                folder = Self.join(folder, name)
                folderEntry = nil
                continue
            }
            let entry = FolderEntry(folder: folder, name: name)
            switch Self.look(Self.join(folder, name)) {
            case .link(let target):
                links += 1
                entries.append(entry)
                guard links <= Self.linksAtMost else { return }
                if target.hasPrefix("/") {
                    folder = "/"
                    folderEntry = nil
                }
                left += Self.names(target)
            case .other:
                guard left.isEmpty else {
                    folderEntry = entry
                    folder = Self.join(folder, name)
                    continue
                }
                entries.append(entry)
                if let folderEntry { entries.append(folderEntry) }
                destination = Self.join(folder, name)
                return
            case .missing:
                if let folderEntry { entries.append(folderEntry) }
                entries.append(entry)
                return
            }
        }
        destination = folder
    }

    private enum Found {
        case link(to: String)
        case other
        case missing
    }

    private static func look(_ path: String) -> Found {
        var target = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path, &target, target.count)
        if count >= 0 {
            return .link(to: String(decoding: target[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self))
        }
        // EINVAL: it is there, and no link. What may not be looked at may be there as well.
        return errno == EINVAL || errno == EACCES ? .other : .missing
    }

    /// The names of a path, the first of them last.
    private static func names(_ path: String) -> [String] {
        path.split(separator: "/").filter { $0 != "." }.map(String.init).reversed()
    }

    private static func join(_ folder: String, _ name: String) -> String {
        folder == "/" ? "/" + name : folder == "." ? name : "\(folder)/\(name)"
    }
}
