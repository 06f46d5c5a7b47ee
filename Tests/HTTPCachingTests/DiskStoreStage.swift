// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPCaching

/// A disk store in a test's own folder, with blocking calls.
final class DiskStoreStage {
    let folder: TemporaryFolder
    let store: DiskStore
    let notices = Monitor<[String]>([])

    init(
        _ folder: TemporaryFolder? = nil,
        capacity: Int = 64 << 20,
        path: String? = nil,
        change: (inout DiskStore.Configuration) -> Void = { _ in }
    ) throws {
        let folder = try folder ?? TemporaryFolder()
        self.folder = folder
        var configuration = DiskStore.Configuration(folder: path ?? folder.path + "/cache", capacity: capacity)
        configuration.pause = 0
        configuration.quiet = 0
        change(&configuration)
        let notices = notices
        store = try DiskStore(configuration, CachingStage.shared) { text in notices.with { $0.append(text) } }
    }

    deinit { store.close() }

    private func wait<Result: Sendable>(
        _ begin: (@escaping @Sendable (Result) -> Void) -> Void
    ) throws -> Result {
        let response = Monitor<Result?>(nil)
        begin { result in response.with { $0 = result } }
        return try response.wait(for: "the store's answer") { $0 }
    }

    private static let here: Delivery = { $0() }

    func entries(_ url: String) throws -> [CachedEntry] { try entries(CachingStage.key(url)) }

    func entries(_ key: CacheKey) throws -> [CachedEntry] {
        try wait { self.store.entries(for: key, deliver: Self.here, $0) }
    }

    /// The body for a URL; nil when there is none, or when it is a miss after all.
    func body(_ url: String) throws -> [UInt8]? {
        guard let entry = try entries(url).first else { return nil }
        return try body(of: entry)
    }

    func body(of entry: CachedEntry) throws -> [UInt8]? {
        switch entry.body {
        case .memory(let bytes): return bytes.bytes
        case .parts: return nil
        case .file(let file):
            let opened: Box<StoredBody?> = try wait { done in
                self.store.open(file, deliver: Self.here) { done(Box($0)) }
            }
            guard let body = opened.value else { return nil }
            var bytes: [UInt8] = []
            while bytes.count < body.length {
                let place = bytes.count
                let piece: Box<[UInt8]?> = try wait { done in
                    self.store.read(body, at: place, count: 50_000, deliver: Self.here) { done(Box($0)) }
                }
                bytes += try #require(piece.value)
            }
            return bytes
        }
    }

    struct NotAFile: Error {}

    /// The open file of a URL's body.
    func open(_ url: String) throws -> StoredBody {
        let entry = try #require(try entries(url).first)
        guard case .file(let file) = entry.body else { throw NotAFile() }
        let opened: Box<StoredBody?> = try wait { done in
            self.store.open(file, deliver: Self.here) { done(Box($0)) }
        }
        return try #require(opened.value)
    }

    /// A box for an optional value.
    struct Box<Value: Sendable>: Sendable {
        let value: Value
        init(_ value: Value) { self.value = value }
    }

    @discardableResult
    func insert(
        _ url: String,
        _ body: [UInt8],
        _ response: CachingStage.Pairs = [],
        to request: CachingStage.Pairs = [],
        tags: [String] = []
    ) throws -> Bool {
        try insert(CachingStage.key(url), body, response, to: request, tags: tags)
    }

    @discardableResult
    func insert(
        _ key: CacheKey,
        _ body: [UInt8],
        _ response: CachingStage.Pairs = [],
        to request: CachingStage.Pairs = [],
        tags: [String] = []
    ) throws -> Bool {
        let insertion = store.insertion(
            for: key,
            try CachingStage.stored(response, to: request),
            tags: tags.map { Array($0.utf8) },
            length: body.count
        )
        guard let insertion else { return false }
        for start in stride(from: 0, to: body.count, by: 10_000) {
            insertion.append(Array(body[start..<min(start + 10_000, body.count)]))
        }
        insertion.finish()
        return true
    }

    /// Waits until bodies that are being written are in the index.
    func settle() throws {
        try waitForBodies()
        _ = try entries("http://settle.example/")
    }

    private func waitForBodies() throws {
        for _ in 0..<2 {
            let isDone = Monitor(false)
            store.someBodyThread().submit { isDone.with { $0 = true } }
            try isDone.wait(for: "the writers") { $0 ? true : nil }
        }
    }

    func remove(_ purge: Purge) throws -> Int {
        try wait { self.store.remove(purge, deliver: Self.here, $0) }
    }

    func list() throws -> [CachedEntry] {
        try wait { self.store.list(host: nil, atMost: 1000, deliver: Self.here, $0) }
    }

    /// The paths of bodies, complete or not.
    func files(_ name: String = "bodies") -> [String] {
        let root = store.configuration.folder + "/" + name
        let found = FileManager.default.enumerator(atPath: root)?.compactMap { $0 as? String } ?? []
        return found.map { root + "/" + $0 }.filter { path in
            var isFolder: ObjCBool = false
            return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && !isFolder.boolValue
        }
    }

    /// Changes the index of a closed store. The connection is closed afterwards: otherwise the next store would be off,
    /// and find nothing whatever was changed.
    static func changeIndex(in folder: TemporaryFolder, _ sql: String) throws {
        let database = try SQLiteDatabase(path: folder.path + "/cache/index.sqlite")
        try withExtendedLifetime(database) { try database.run(sql) }
    }

    static func bytes(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
        patternBytes(count, seed: seed)
    }
}
