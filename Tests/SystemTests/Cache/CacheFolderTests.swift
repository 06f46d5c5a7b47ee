// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

/// Folders that others prepared, and what others find in ours.
@Suite("Attacks on the cache: its folder", .onOwnThreads)
struct CacheFolderTests {
    @Test("a folder that others may write, or own, is not used")
    func foreignFolder() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/cache"
        mkdir(path, 0o700)
        chmod(path, 0o777)
        let cache = try CacheFixture(["disk": ["path": path, "size": "100MB"]]) { _ in CacheFixture.fresh("x") }
        #expect(try cache.get().text == "x")
        let event = try cache.proxy.waitForEvent("warning") { $0.string("code") == "cache_disk" }
        #expect(event.string("message")?.contains("others may write") == true)
        #expect(!FileManager.default.fileExists(atPath: "\(path)/index.sqlite"))
        // Memory serves alone.
        #expect(try cache.get()["Cache-Status"]?.contains("hit") == true)
    }

    @Test("links inside the folder are not followed")
    func links() throws {
        let folder = try TemporaryFolder()
        try folder.write("precious", as: "victim")
        let path = "\(folder.path)/cache"
        mkdir(path, 0o700)
        symlink("\(folder.path)/victim", "\(path)/index.sqlite")
        let cache = try CacheFixture(["disk": ["path": path, "size": "100MB"]]) { _ in CacheFixture.fresh("x") }
        #expect(try cache.get().text == "x")
        _ = try cache.proxy.waitForEvent("warning") { $0.string("code") == "cache_disk" }
        #expect(try String(contentsOfFile: "\(folder.path)/victim", encoding: .utf8) == "precious")
    }

    @Test("the disk's contents are private, without credentials of clients")
    func secrets() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/cache"
        // A folder with permissions that its owner did not think about.
        mkdir(path, 0o755)
        chmod(path, 0o755)
        let cache = try CacheFixture(["disk": ["path": path, "size": "100MB"]]) { request in
            OriginResponse.text(
                String(repeating: "b", count: request.target == "/large" ? 100_000 : 10),
                fields: ["Cache-Control: public, max-age=60"]
                    + (request.target == "/vary" ? ["Vary: Authorization, Cookie"] : [])
            )
        }
        for path in ["/large", "/vary"] {
            for _ in 0..<2 {
                let fields = ["Authorization: Bearer s3cret-token", "Cookie: id=s3cret-cookie"]
                #expect(try cache.get(path, fields: fields).status == 200)
            }
        }
        // Both were hits the second time, from memory.
        #expect(cache.requests.count == 2)
        _ = try cache.proxy.terminate()
        var count = 0
        for case let name as String in try #require(FileManager.default.enumerator(atPath: path)) {
            let attributes = try FileManager.default.attributesOfItem(atPath: "\(path)/\(name)")
            let mode = try #require(attributes[.posixPermissions] as? Int)
            #expect(mode & 0o077 == 0, "\(name) has \(String(mode, radix: 8))")
            guard attributes[.type] as? FileAttributeType == .typeRegular else { continue }
            count += 1
            let bytes = try Data(contentsOf: URL(fileURLWithPath: "\(path)/\(name)"))
            #expect(bytes.range(of: Data("s3cret".utf8)) == nil, "\(name)")
        }
        #expect(count >= 2)
    }

    @Test("of two proxies with one folder the second uses memory alone")
    func twoProxies() throws {
        let folder = try TemporaryFolder()
        let cache = try CacheFixture(["disk": ["path": "\(folder.path)/cache", "size": "100MB"]]) { _ in
            CacheFixture.fresh("x")
        }
        #expect(try cache.get().text == "x")
        let second = try ProxyUnderTest(cache.stage.settings)
        for _ in 0..<2 { #expect(try second.get(cache.stage.url()).text == "x") }
        _ = try second.waitForEvent("warning") { $0.string("code") == "cache_disk" }
        #expect(cache.requests.count == 2)
        #expect(try second.terminate().exitCode == 0)
        #expect(try cache.get()["Cache-Status"]?.contains("hit") == true)
    }
}
