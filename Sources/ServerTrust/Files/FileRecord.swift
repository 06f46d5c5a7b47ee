// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
package import IOCore

/// A record of the files and folders that a load has read, with their contents. It shows whether a new load would read
/// anything different, and which folders to watch for changes.
///
/// Only the SHA-256 of contents is kept, because private keys are among them.
package struct FileRecord: Sendable {
    private enum Kind: UInt8, Hashable, Sendable {
        case file
        case folder
        /// Only the existence of a folder was checked.
        case isFolder
    }

    private struct Look: Hashable, Sendable {
        var path: String
        var kind: Kind
    }

    private struct Entry: Sendable {
        var look: Look
        /// The largest size that is read of a file, in bytes.
        var limit: Int
        /// The digest of the contents; nil when two readings found different ones.
        var digest: Digest?
    }

    /// SHA-256, stored inline: there may be tens of thousands.
    private struct Digest: Hashable, Sendable {
        private var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

        init(_ bytes: [UInt8]) {
            withUnsafeMutableBytes(of: &words) { room in
                _ = bytes.withUnsafeBytes { SHA256($0.baseAddress, $0.count, room.baseAddress) }
            }
        }

        var bytes: [UInt8] { withUnsafeBytes(of: words) { Array($0) } }

        static func == (a: Digest, b: Digest) -> Bool { a.words == b.words }

        func hash(into hasher: inout Hasher) { hasher.combine(words.0) }
    }

    private var entries: [Entry] = []
    /// The index of each reading in `entries`.
    private var places: [Look: Int] = [:]

    /// Nothing was read.
    package init() {}

    /// Records all that `body` reads through `FileContents` on this thread.
    package static func recording<Result>(_ body: () -> Result) -> (Result, FileRecord) {
        let recorder = FileRecorder()
        let result = FileContents.$recorder.withValue(recorder, operation: body)
        return (result, recorder.record)
    }

    /// Whether everything is as it was read. Blocking disk I/O: never on a loop.
    package var isCurrent: Bool {
        entries.allSatisfy { entry in
            let path = entry.look.path
            return switch entry.look.kind {
            case .file: Self.digest(of: FileContents.read(path, limit: entry.limit)) == entry.digest
            case .folder: Self.digest(of: FileContents.names(inFolder: path)) == entry.digest
            case .isFolder: Self.digest(of: FileContents.isFolder(path)) == entry.digest
            }
        }
    }

    /// A digest of everything that was read, in 32 hexadecimal digits: the same for the same contents, within this process.
    ///
    /// A random key of the process is part of it, so that it confirms no guess at a secret among the files.
    package var fingerprint: String {
        var bytes = Self.fingerprintKey
        for entry in entries.sorted(by: {
            ($0.look.path, $0.look.kind.rawValue) < ($1.look.path, $1.look.kind.rawValue)
        }) {
            bytes += Array(entry.look.path.utf8) + [0, entry.look.kind.rawValue, entry.digest == nil ? 0 : 1]
            bytes += entry.digest?.bytes ?? []
        }
        let digits = Array("0123456789abcdef".utf8)
        let digest = Digest(bytes).bytes.prefix(16).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        return String(decoding: digest, as: UTF8.self)
    }

    private static let fingerprintKey = (0..<32).map { _ in UInt8.random(in: .min ... .max) }

    /// The paths of all files that were read, or should have been.
    package var files: [String] {
        entries.compactMap { $0.look.kind == .file ? $0.look.path : nil }
    }

    /// The folders in which a change could alter the result of a load. Symbolic links on the way to a file are
    /// followed, and their folders are included.
    package var watchedFolders: [String: FolderWatch.Names] {
        var some: [String: Set<String>] = [:]
        var whole: Set<String> = []
        var lookups = PathLookups()
        for entry in entries {
            let lookup = lookups.lookup(entry.look.path)
            for step in lookup.entries { some[step.folder, default: []].insert(step.name) }
            if entry.look.kind == .folder, let destination = lookup.destination { whole.insert(destination) }
        }
        var folders = some.mapValues { FolderWatch.Names.these($0) }
        for folder in whole { folders[folder] = .all }
        return folders
    }

    // MARK: Recording

    fileprivate mutating func note(_ path: String, limit: Int, _ contents: Result<[UInt8], FileContents.Fault>) {
        note(Look(path: path, kind: .file), limit: limit, Self.digest(of: contents))
    }

    fileprivate mutating func note(_ path: String, names: Result<[String], FileContents.Fault>) {
        note(Look(path: path, kind: .folder), Self.digest(of: names))
    }

    fileprivate mutating func note(_ path: String, isFolder: Bool) {
        note(Look(path: path, kind: .isFolder), Self.digest(of: isFolder))
    }

    private mutating func note(_ look: Look, limit: Int = 0, _ digest: Digest) {
        if let known = places[look] {
            if entries[known].digest != digest { entries[known].digest = nil }
        } else {
            places[look] = entries.count
            entries.append(Entry(look: look, limit: limit, digest: digest))
        }
    }

    private static func digest(of contents: Result<[UInt8], FileContents.Fault>) -> Digest {
        switch contents {
        case .success(let bytes): Digest([1] + bytes)
        case .failure(let fault): Digest([0] + Array(fault.message.utf8))
        }
    }

    private static func digest(of names: Result<[String], FileContents.Fault>) -> Digest {
        // No name holds a slash.
        digest(of: names.map { Array($0.joined(separator: "/").utf8) })
    }

    private static func digest(of isFolder: Bool) -> Digest { Digest([isFolder ? 1 : 0]) }
}

/// The recorder of `FileRecord.recording`.
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
