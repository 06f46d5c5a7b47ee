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
        var way = Way(path)
        self = way.go(leaving: 0) ?? way.end
    }

    fileprivate init(entries: [FolderEntry], destination: String?) {
        self.entries = entries
        self.destination = destination
    }

    /// How far it is gone.
    fileprivate struct Way {
        /// The names that are to come, the next one last.
        var left: [String]
        private var folder: String
        /// Where `folder` itself is entered.
        private var folderEntry: FolderEntry?
        private var links = 0
        private var entries: [FolderEntry] = []

        init(_ path: String) {
            left = PathLookup.names(path)
            folder = path.hasPrefix("/") ? "/" : "."
        }

        /// It ended with a folder that was entered.
        var end: PathLookup { PathLookup(entries: entries, destination: folder) }

        /// Goes on.
        ///
        /// - Parameter count: how many of the names are left for later.
        /// - Returns: nil when only those are left; else where the way has ended.
        mutating func go(leaving count: Int) -> PathLookup? {
            while left.count > count, let name = left.popLast() {
                if name == ".." {
                    folder = PathLookup.join(folder, name)
                    folderEntry = nil
                    continue
                }
                let entry = FolderEntry(folder: folder, name: name)
                switch PathLookup.look(PathLookup.join(folder, name)) {
                case .link(let target):
                    links += 1
                    entries.append(entry)
                    guard links <= PathLookup.linksAtMost else { return PathLookup(entries: entries, destination: nil) }
                    if target.hasPrefix("/") {
                        folder = "/"
                        folderEntry = nil
                    }
                    left += PathLookup.names(target)
                case .other:
                    guard left.isEmpty else {
                        folderEntry = entry
                        folder = PathLookup.join(folder, name)
                        continue
                    }
                    entries.append(entry)
                    if let folderEntry { entries.append(folderEntry) }
                    return PathLookup(entries: entries, destination: PathLookup.join(folder, name))
                case .missing:
                    if let folderEntry { entries.append(folderEntry) }
                    entries.append(entry)
                    return PathLookup(entries: entries, destination: nil)
                }
            }
            return nil
        }
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

/// Many paths, most of them in the same few folders: the way to a folder is gone once.
package struct PathLookups {
    private var ways: [Substring: PathLookup.Way] = [:]

    package init() {}

    /// As `PathLookup(path)`, of the moment in which the first path of its folder was looked up.
    package mutating func lookup(_ path: String) -> PathLookup {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return PathLookup(path) }
        let name = path[path.utf8.index(after: slash)...]
        guard !name.isEmpty, name != "." else { return PathLookup(path) }
        let folder = path[..<slash]
        var way: PathLookup.Way
        if let known = ways[folder] {
            way = known
        } else {
            way = PathLookup.Way(path)
            if let end = way.go(leaving: 1) { return end }
            ways[folder] = way
        }
        way.left = [String(name)]
        return way.go(leaving: 0) ?? way.end
    }
}
