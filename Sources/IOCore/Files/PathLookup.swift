// SPDX-License-Identifier: Apache-2.0
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

/// The resolution of a path to a file, through symbolic links.
package struct PathLookup: Hashable, Sendable {
    /// The entries whose change can alter the result, in the order of resolution: each symbolic link, the file itself,
    /// and its folder. If the resolution fails, the missing entry is the last one.
    package private(set) var entries: [FolderEntry] = []
    /// The path without symbolic links; nil when it does not exist.
    package private(set) var destination: String?

    /// The largest number of links to follow, as in Linux.
    private static let linksAtMost = 40

    /// Reads the disk: never on a loop.
    package init(_ path: String) {
        var way = Way(path)
        self = way.go(leaving: 0) ?? way.end
    }

    fileprivate init(entries: [FolderEntry], destination: String?) {
        self.entries = entries
        self.destination = destination
    }

    /// The folder that the resolution has reached.
    fileprivate struct Way {
        /// The remaining names, the next one last.
        var left: [String]
        private var folder: String
        /// The entry of `folder` itself.
        private var folderEntry: FolderEntry?
        private var links = 0
        private var entries: [FolderEntry] = []

        init(_ path: String) {
            left = PathLookup.names(path)
            folder = path.hasPrefix("/") ? "/" : "."
        }

        /// Whether the resolution ended with a folder that was entered.
        var end: PathLookup { PathLookup(entries: entries, destination: folder) }

        /// Continues the resolution.
        ///
        /// - Parameter count: the number of names that stay unresolved.
        /// - Returns: nil when only those are left; otherwise the result.
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
        // EINVAL: it exists and is not a link. An entry without access permission may exist as well.
        return errno == EINVAL || errno == EACCES ? .other : .missing
    }

    /// The names of a path in reverse order.
    private static func names(_ path: String) -> [String] {
        path.split(separator: "/").filter { $0 != "." }.map(String.init).reversed()
    }

    private static func join(_ folder: String, _ name: String) -> String {
        folder == "/" ? "/" + name : folder == "." ? name : "\(folder)/\(name)"
    }
}

/// A cache for the lookup of many paths in few folders: each folder is resolved once.
package struct PathLookups {
    private var ways: [Substring: PathLookup.Way] = [:]

    package init() {}

    /// Like `PathLookup(path)`, with the state at the first lookup in its folder.
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
