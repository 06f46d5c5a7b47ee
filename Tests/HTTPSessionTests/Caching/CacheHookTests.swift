// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("What is stored of a response", .onOwnThreads)
struct CacheHookTests {
    @Test("the hook sees a response before storage, and may change or refuse it")
    func changed() async throws {
        let cached = try CacheFixture(
            responding: CacheFixture.counting("Cache-Control: max-age=0", "X-Secret: s")
        )
        let log = cached.stage.log
        cached.manager.dataTaskWillCacheResponse = { task, proposed in
            log.with {
                $0.append(
                    "\(task.originalRequest.url.suffix(2)) \(proposed.status) \(proposed.fields.value(for: "X-Secret")!)"
                )
            }
            guard !task.originalRequest.url.hasSuffix("/n") else { return nil }
            var response = proposed
            try? response.fields.set(name: "Cache-Control", value: "max-age=60")
            response.fields.remove(name: "X-Secret")
            return response
        }
        #expect(try await cached.get("/y") == "1")
        let again = try await cached.response(cached.request("/y"))
        #expect(again.text == "1")
        #expect(again.response.fields.value(for: "X-Secret") == nil)
        #expect(again.response.fields.value(for: "Cache-Control") == "max-age=60")
        #expect(try await cached.get("/n") == "2")
        #expect(try await cached.get("/n") == "3")
        #expect(log.with { $0 } == ["/y 200 s", "/n 200 s", "/n 200 s"])
        // The client of the first answer gets it as it came.
        #expect(try await cached.response(cached.request("/z")).response.fields.value(for: "X-Secret") == "s")
        await cached.end()
    }

    @Test("a task's own hook goes before the session's")
    func ownHook() async throws {
        let cached = try CacheFixture(responding: CacheFixture.counting("Cache-Control: max-age=60"))
        cached.manager.dataTaskWillCacheResponse = { _, proposed in proposed }
        let task = try cached.manager.dataTask(with: cached.request())
        (task.delegate as? DataTaskDelegate)?.dataTaskWillCacheResponse = { _, _ in nil }
        #expect(try await task.value().text == "1")
        #expect(try await cached.get() == "2")
        #expect(try await cached.get() == "2")
        await cached.end()
    }

    @Test("responses that may not be stored do not reach the hook")
    func forbidden() async throws {
        let cached = try CacheFixture { request in
            OriginResponse.text("x", fields: [request.target == "/no" ? "Cache-Control: no-store" : "X-May: be"])
        }
        let log = cached.stage.log
        cached.manager.dataTaskWillCacheResponse = { task, proposed in
            log.with { $0.append(task.originalRequest.url) }
            var response = proposed
            try? response.fields.set(name: "Cache-Control", value: "no-store")
            return response
        }
        for path in ["/no", "/no", "/yes", "/yes"] { _ = try await cached.get(path) }
        #expect(cached.asked == ["/no", "/no", "/yes", "/yes"])
        #expect(log.with { $0 } == [ManagerStage.url("/yes"), ManagerStage.url("/yes")])
        await cached.end()
    }

    @Test("the hook is asked again of what a validation has changed")
    func validated() async throws {
        let cached = try CacheFixture { request in
            request["If-None-Match"] != nil
                ? "HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\nCache-Control: max-age=0\r\n\r\n"
                : OriginResponse.text("hello", fields: ["ETag: \"v\"", "Cache-Control: max-age=0"])
        }
        let isAllowed = Monitor(0)
        cached.manager.dataTaskWillCacheResponse = { _, proposed in
            let turn = isAllowed.with {
                $0 += 1
                return $0
            }
            var response = proposed
            // Stored as it is, then for a minute.
            if turn == 2 { try? response.fields.set(name: "Cache-Control", value: "max-age=60") }
            return response
        }
        for _ in 0..<4 { #expect(try await cached.get() == "hello") }
        #expect(cached.asked.count == 2)
        await cached.end()
        let refused = try CacheFixture { request in
            request["If-None-Match"] != nil
                ? "HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\n\r\n"
                : OriginResponse.text("hello", fields: ["ETag: \"v\"", "Cache-Control: max-age=0"])
        }
        let turn = Monitor(0)
        refused.manager.dataTaskWillCacheResponse = { _, proposed in
            turn.with {
                $0 += 1
                return $0 == 2 ? nil : proposed
            }
        }
        for _ in 0..<3 { #expect(try await refused.get() == "hello") }
        // The third had nothing to validate.
        #expect(refused.stage.origin.requests.map { $0["If-None-Match"] } == [nil, "\"v\"", nil])
        await refused.end()
    }

    @Test("the hook sends a response to the disk or to memory alone")
    func storagePolicy() async throws {
        let folder = try TemporaryFolder()
        func cache() throws -> SessionCache {
            try SessionCache(diskCapacity: 8 << 20, diskPath: folder.path + "/cache")
        }
        let first = try CacheFixture(cache: cache(), responding: CacheFixture.counting("Cache-Control: max-age=60"))
        first.manager.dataTaskWillCacheResponse = { task, proposed in
            var response = proposed
            if task.originalRequest.url.hasSuffix("/memory") { response.storagePolicy = .allowedInMemoryOnly }
            if task.originalRequest.url.hasSuffix("/not") { response.storagePolicy = .notAllowed }
            return response
        }
        for path in ["/disk", "/memory", "/not"] {
            _ = try await first.get(path)
            _ = try await first.get(path)
        }
        #expect(first.asked == ["/disk", "/memory", "/not", "/not"])
        // All that is left is on the disk.
        await first.cache.close()
        let next = try cache()
        let manager = try URLSessionManager(
            configuration: {
                var configuration = first.manager.configuration
                configuration.cache = next
                configuration.cachePolicy = .returnCacheDataDontLoad
                return configuration
            }(),
            serverTrust: first.manager.serverTrust
        )
        let kept = try await manager.dataTask(with: first.request("/disk")).value()
        #expect(kept.text == "1")
        #expect(next.currentDiskUsage > 0)
        for path in ["/memory", "/not"] {
            let task = try manager.dataTask(with: first.request(path))
            await #expect { _ = try await task.value() } throws: { $0.sessionCode == .notStored }
        }
        await manager.invalidateSession(cancelingTasks: false)
        await first.end()
        await next.close()
    }
}
