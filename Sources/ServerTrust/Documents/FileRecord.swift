import COpenSSL
import CShims
package import IOCore

/// What a load has read from the disk: which files and folders, and what was in them. So it can be told whether a load
/// would find anything else now, and which folders to watch for that.
///
/// Contents are kept as their SHA-256: private keys are among them.
package struct FileRecord: Sendable {
    private enum Kind: Sendable {
        case file(limit: Int)
        case folder
        /// Only whether there is a folder.
        case isFolder
    }

    private struct Entry: Sendable {
        var path: String
        var kind: Kind
        /// Of what was found; empty when two looks found different things.
        var digest: [UInt8]
    }

    private var entries: [Entry] = []

    /// Nothing was read.
    package init() {}

    /// Notes all that `body` reads through `FileContents` on this thread.
    package static func recording<Result>(_ body: () -> Result) -> (Result, FileRecord) {
        let recorder = FileRecorder()
        let result = FileContents.$recorder.withValue(recorder, operation: body)
        return (result, recorder.record)
    }

    /// Whether everything is as it was read. Blocking disk I/O: never on a loop.
    package var isCurrent: Bool {
        entries.allSatisfy { entry in
            switch entry.kind {
            case .file(let limit): Self.digest(of: FileContents.read(entry.path, limit: limit)) == entry.digest
            case .folder: Self.digest(of: FileContents.names(inFolder: entry.path)) == entry.digest
            case .isFolder: Self.digest(of: FileContents.isFolder(entry.path)) == entry.digest
            }
        }
    }

    /// The paths of all files that were read, or should have been.
    package var files: [String] {
        entries.compactMap { entry in
            if case .file = entry.kind { entry.path } else { nil }
        }
    }

    /// The folders in which a change may mean that something else would be read now, as they are on the disk at
    /// present: symbolic links on the way to a file are followed, and watched too.
    package var watchedFolders: [String: FolderWatch.Names] {
        var folders: [String: FolderWatch.Names] = [:]
        func add(_ folder: String, _ names: FolderWatch.Names) {
            folders[folder] = folders[folder]?.union(names) ?? names
        }
        for entry in entries {
            let lookup = PathLookup(entry.path)
            for step in lookup.entries { add(step.folder, .these([step.name])) }
            if case .folder = entry.kind, let destination = lookup.destination { add(destination, .all) }
        }
        return folders
    }

    // MARK: Recording

    fileprivate mutating func note(_ path: String, limit: Int, _ contents: Result<[UInt8], FileContents.Fault>) {
        note(path, .file(limit: limit), Self.digest(of: contents))
    }

    fileprivate mutating func note(_ path: String, names: Result<[String], FileContents.Fault>) {
        note(path, .folder, Self.digest(of: names))
    }

    fileprivate mutating func note(_ path: String, isFolder: Bool) {
        note(path, .isFolder, Self.digest(of: isFolder))
    }

    private mutating func note(_ path: String, _ kind: Kind, _ digest: [UInt8]) {
        let known = entries.firstIndex { entry in
            switch (entry.kind, kind) {
            case (.file, .file), (.folder, .folder), (.isFolder, .isFolder): entry.path == path
            default: false
            }
        }
        if let known {
            if entries[known].digest != digest { entries[known].digest = [] }
        } else {
            entries.append(Entry(path: path, kind: kind, digest: digest))
        }
    }

    private static func digest(of contents: Result<[UInt8], FileContents.Fault>) -> [UInt8] {
        switch contents {
        case .success(let bytes): sha256([1] + bytes)
        case .failure(let fault): sha256([0] + Array(fault.message.utf8))
        }
    }

    private static func digest(of names: Result<[String], FileContents.Fault>) -> [UInt8] {
        // No name holds a slash.
        digest(of: names.map { Array($0.joined(separator: "/").utf8) })
    }

    private static func digest(of isFolder: Bool) -> [UInt8] { sha256([isFolder ? 1 : 0]) }

    private static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        SHA256(bytes, bytes.count, &digest)
        return digest
    }
}

/// Takes notes while `FileRecord.recording` runs.
///
/// `@unchecked Sendable` because the task-local value that holds it is seen by the one thread that runs the body, which
/// is synchronous and starts no tasks.
final class FileRecorder: @unchecked Sendable {
    fileprivate(set) var record = FileRecord()

    func note(_ path: String, limit: Int, _ contents: Result<[UInt8], FileContents.Fault>) {
        record.note(path, limit: limit, contents)
    }

    func note(_ path: String, names: Result<[String], FileContents.Fault>) {
        record.note(path, names: names)
    }

    func note(_ path: String, isFolder: Bool) {
        record.note(path, isFolder: isFolder)
    }
}
