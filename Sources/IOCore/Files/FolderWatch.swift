// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Detects changes of folder entries (inotify(7)): created, closed after writing, renamed, removed, or with new
/// permissions. It does not tell which entry has changed.
///
/// It watches the folders that existed when it was made; make a new one after a change. For one thread.
package final class FolderWatch {
    /// The relevant entries of a folder.
    package enum Names: Hashable, Sendable {
        case all
        case these(Set<String>)

        package func contains(_ name: String) -> Bool {
            switch self {
            case .all: true
            case .these(let names): names.contains(name)
            }
        }

        package func union(_ other: Names) -> Names {
            guard case .these(let mine) = self, case .these(let others) = other else { return .all }
            return .these(mine.union(others))
        }
    }

    /// Readable when something may have changed.
    package let descriptor: Int32
    /// The folders that cannot be watched, with the error; missing folders are left out.
    package private(set) var failures: [(folder: String, IOFailure)] = []
    private var names: [Int32: Names] = [:]

    private static let events =
        IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF

    /// - Throws: when the limit of inotify instances for this user is reached (`fs.inotify.max_user_instances`).
    package init(_ folders: [String: Names]) throws(IOFailure) {
        descriptor = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
        guard descriptor >= 0 else { throw IOFailure(code: errno, during: "inotify_init1") }
        for (folder, wanted) in folders.sorted(by: { $0.key < $1.key }) {
            let watch = inotify_add_watch(descriptor, folder, UInt32(Self.events | IN_ONLYDIR))
            if watch >= 0 {
                // Two paths to the same folder share one watch.
                names[watch] = names[watch]?.union(wanted) ?? wanted
            } else if errno != ENOENT, errno != ENOTDIR {
                failures.append((folder, IOFailure(code: errno, during: "inotify_add_watch")))
            }
        }
    }

    deinit { close(descriptor) }

    /// Reads all pending events, without blocking.
    ///
    /// - Returns: whether any of them concerned a relevant entry.
    package func drainChanges() -> Bool {
        var isRelevant = false
        while true {
            var room = [UInt8](repeating: 0, count: 16 << 10)
            let count = read(descriptor, &room, room.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return isRelevant }
            var rest = room[..<count]
            while let (event, name) = Self.popEvent(&rest) {
                // An event without a name: the folder itself, or an overflow of the queue.
                if name.isEmpty || names[event]?.contains(name) == true { isRelevant = true }
            }
        }
    }

    /// One `struct inotify_event`: watch, mask, cookie and the length of the name that follows, padded with zeros.
    private static func popEvent(_ bytes: inout ArraySlice<UInt8>) -> (watch: Int32, name: String)? {
        let headSize = MemoryLayout<inotify_event>.size
        guard bytes.count >= headSize else { return nil }
        let event = bytes.withUnsafeBytes { $0.loadUnaligned(as: inotify_event.self) }
        let size = headSize + Int(event.len)
        guard bytes.count >= size else { return nil }
        let name = bytes.dropFirst(headSize).prefix(Int(event.len)).prefix { $0 != 0 }
        bytes = bytes.dropFirst(size)
        return (event.wd, String(decoding: name, as: UTF8.self))
    }
}
