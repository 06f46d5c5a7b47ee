// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Downloads", .onOwnThreads)
struct DownloadTests {
    typealias Stage = ManagerStage
    static let body = patternBytes(3_000_000)
    let folder = try! TemporaryFolder()
    let url = ManagerStage.url("/file")

    /// Serves `body` with ranges and a validator, as a good origin does.
    static func serve(_ connection: OriginConnection, tag: String = "\"v1\"", cutAt: Int? = nil) throws {
        while let request = try connection.readRequest() {
            var first = 0
            if let range = request["Range"], request["If-Range"] == tag {
                first = Int(range.dropFirst("bytes=".count).dropLast())!
            }
            let rest = body[first...]
            let head =
                first == 0
                ? "HTTP/1.1 200 OK\r\n"
                : "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes \(first)-\(body.count - 1)/\(body.count)\r\n"
            try connection.write("\(head)ETag: \(tag)\r\nContent-Length: \(rest.count)\r\n\r\n")
            if let cutAt, first == 0 {
                try connection.write(Array(rest.prefix(cutAt)))
                connection.readToEnd()
                return
            }
            try connection.write(Array(rest))
        }
    }

    func stage(
        _ change: (inout URLSessionManager.Configuration) -> Void = { _ in },
        script: @escaping ScriptedOrigin.Script
    ) throws -> Stage {
        let path = folder.path
        return try Stage { configuration in
            configuration.temporaryFolder = path
            change(&configuration)
        } script: {
            try script($0)
        }
    }

    func file(_ path: String) throws -> [UInt8] { [UInt8](try Data(contentsOf: URL(fileURLWithPath: path))) }
    var partials: [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".part") }) ?? []
    }

    @Test("a download reaches its destination, makes folders, and reports progress")
    func destination() async throws {
        let stage = try stage { try Self.serve($0) }
        stage.manager.downloadTaskDidWriteData = { [stage] task, count, total, expected in
            stage.log.with { $0 = ["\(total) of \(expected ?? -1)"] }
        }
        let target = "\(folder.path)/a/b/file"
        let task = try stage.manager.downloadTask(with: HTTPSessionRequest(url: url)) { path, response in
            #expect(path.hasSuffix(".part") && response.status == 200)
            return (target, .createIntermediateDirectories)
        }
        #expect(stage.manager.downloadTasks.map(\.taskIdentifier) == [task.taskIdentifier])
        let progress = Monitor<TaskProgress?>(nil)
        task.downloadDelegate.setProgressHandler { step in progress.with { $0 = step } }
        let response = try await task.value()
        #expect(response.path == target)
        let isWhole = try file(target) == Self.body
        #expect(isWhole)
        #expect(task.countOfBytesReceived == 3_000_000)
        #expect(response.metrics.transaction.responseBodyBytesReceived == 3_000_000)
        #expect(stage.log.with { $0 } == ["3000000 of 3000000"])
        try await eventually("progress") { progress.with { $0?.fraction == 1 } }
        #expect(partials.isEmpty)
        #expect(task.downloadDelegate.resumeData == nil)
        await stage.end()
    }

    @Test("without a destination the hook names one, or the file stays in place")
    func hook() async throws {
        let stage = try stage { try Self.serve($0) }
        let stays = try await stage.manager.downloadTask(with: HTTPSessionRequest(url: url)).value()
        #expect(partials.map { "\(folder.path)/\($0)" } == [stays.path])
        let mode = try FileManager.default.attributesOfItem(atPath: stays.path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let target = "\(folder.path)/moved"
        stage.manager.downloadTaskDidFinishDownloading = { _, _ in target }
        #expect(try await stage.manager.downloadTask(with: HTTPSessionRequest(url: url)).value().path == target)
        let isWhole = try file(target) == Self.body
        #expect(isWhole)
        await stage.end()
    }

    @Test("an existing file is left alone, unless it may be replaced")
    func previousFile() async throws {
        let stage = try stage { try Self.serve($0) }
        stage.manager.downloadTaskDidFailToMove = { [stage] _, error in stage.note("\(error.code)") }
        let target = try folder.write("old", as: "target")
        let refused = try stage.manager.downloadTask(with: HTTPSessionRequest(url: url)) { _, _ in (target, []) }
        await #expect { try await refused.value() } throws: { $0.sessionCode == .fileFailed }
        #expect(try file(target) == Array("old".utf8))
        #expect(stage.log.with { $0 } == ["fileFailed"])
        #expect(partials.isEmpty)
        let nowhere = try stage.manager.downloadTask(with: HTTPSessionRequest(url: url)) { [folder] _, _ in
            ("\(folder.path)/no/folder", .removePreviousFile)
        }
        await #expect { try await nowhere.value() } throws: { $0.sessionCode == .fileFailed }
        let replaced = try stage.manager.downloadTask(with: HTTPSessionRequest(url: url)) { _, _ in
            (target, .removePreviousFile)
        }
        #expect(try await replaced.value().path == target)
        let isWhole = try file(target) == Self.body
        #expect(isWhole)
        await stage.end()
    }

    @Test("a full disk fails the task")
    func noFolder() async throws {
        let stage = try stage {
            $0.temporaryFolder = "/nonexistent/folder"
        } script: {
            try Self.serve($0)
        }
        let task = try stage.manager.downloadTask(with: HTTPSessionRequest(url: url))
        await #expect { try await task.value() } throws: { $0.sessionCode == .fileFailed }
        #expect(task.downloadDelegate.resumeData == nil)
        await stage.end()
    }

    @Test("a download that the origin breaks off leaves resume data where possible", arguments: [true, false])
    func brokenOff(hasTag: Bool) async throws {
        let stage = try stage { connection in
            _ = try connection.readRequest()
            try connection.write(
                "HTTP/1.1 200 OK\r\n\(hasTag ? "ETag: \"v1\"\r\n" : "")Content-Length: 3000000\r\n\r\n"
            )
            try connection.write(Array(Self.body.prefix(500_000)))
        }
        let task = try stage.manager.downloadTask(with: HTTPSessionRequest(url: url))
        await #expect { try await task.value() } throws: { $0.sessionCode == .responseTruncated }
        #expect((task.downloadDelegate.resumeData != nil) == hasTag)
        #expect(partials.count == (hasTag ? 1 : 0))
        if let data = task.downloadDelegate.resumeData { #expect(try ResumeData(data).received == 500_000) }
        await stage.end()
    }

    @Test("a download that is cancelled leaves nothing")
    func cancellation() async throws {
        let stage = try stage { try Self.serve($0, cutAt: 1_000_000) }
        let task = try stage.manager.downloadTask(with: HTTPSessionRequest(url: url))
        task.resume()
        try await eventually("a part") { task.countOfBytesReceived == 1_000_000 }
        task.cancel()
        await #expect { try await task.value() } throws: { $0.sessionCode == .cancelled }
        #expect(partials.isEmpty)
        #expect(await task.cancelByProducingResumeData() == nil)
        let never = try stage.manager.downloadTask(with: HTTPSessionRequest(url: url))
        #expect(await never.cancelByProducingResumeData() == nil)
        await stage.end()
    }

    @Test("a data task becomes a download when its response says so")
    func becomeDownload() async throws {
        let stage = try stage { try Self.serve($0) }
        let target = "\(folder.path)/became"
        stage.manager.dataTaskDidReceiveResponse = { _, response in
            (response.contentLength ?? 0) > 1000 ? .becomeDownload : .allow
        }
        stage.manager.dataTaskDidBecomeDownloadTask = { [stage] data, download in
            stage.note("\(data.taskIdentifier) \(data.state)")
            download.downloadDelegate.destination = { _, _ in (target, []) }
            download.delegate.queue.add { [stage] in stage.note("moved \(download.error == nil)") }
        }
        stage.manager.taskDidComplete = { [stage] task, _ in stage.note(task is DownloadTask ? "download" : "data") }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: url))
        task.taskDescription = "named"
        let steps = Monitor<[TaskProgress]>([])
        task.dataDelegate.setProgressHandler { step in steps.with { $0.append(step) } }
        task.delegate.taskDidComplete = { [stage] task, error in
            stage.note("own \(task is DownloadTask) \(error == nil)")
        }
        task.onCompletion { [stage] result in stage.note("handler \((try? result.get())?.response.status ?? 0)") }
        let response = try await task.value()
        #expect(response.response.status == 200 && response.data.isEmpty && task.error == nil)
        let log = try await stage.wait(for: "handler 200")
        #expect(
            log.filter { $0 != "moved true" } == ["\(task.taskIdentifier) completed", "own true true", "handler 200"]
        )
        _ = try await stage.wait(for: "moved true")
        try await eventually("the last figure") {
            steps.with { $0.last?.completedBytes == Int64(Self.body.count) }
        }
        let isWhole = try file(target) == Self.body
        #expect(isWhole)
        #expect(stage.manager.tasks.isEmpty)
        await stage.end()
    }

    @Test("a data task and the download that it becomes fail and cancel together")
    func becomeFailingDownload() async throws {
        let stage = try stage { try Self.serve($0, cutAt: 1_000_000) }
        stage.manager.dataTaskDidReceiveResponse = { _, _ in .becomeDownload }
        let download = Monitor<DownloadTask?>(nil)
        stage.manager.dataTaskDidBecomeDownloadTask = { _, task in download.with { $0 = task } }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: url))
        task.resume()
        try await eventually("a part") { download.with { $0?.countOfBytesReceived == 1_000_000 } }
        task.suspend()
        #expect(download.with { $0?.state } == .suspended)
        task.resume()
        #expect(download.with { $0?.state } == .running)
        task.cancel()
        await #expect { try await task.value() } throws: { $0.sessionCode == .cancelled }
        #expect(download.with { $0?.error?.code } == .cancelled)
        #expect(partials.isEmpty)
        await stage.end()
    }

    @Test("the manager's hook for a complete file precedes the task's destination")
    func hookBeforeDestination() async throws {
        let stage = try stage { try Self.serve($0) }
        let byHook = Monitor<String?>("\(folder.path)/hook")
        stage.manager.downloadTaskDidFinishDownloading = { _, _ in byHook.with { $0 } }
        func path() async throws -> String {
            let target = "\(folder.path)/destination"
            return try await stage.manager.downloadTask(with: HTTPSessionRequest(url: url)) { _, _ in (target, []) }
                .value()
                .path
        }
        #expect(try await path() == "\(folder.path)/hook")
        byHook.with { $0 = nil }
        #expect(try await path() == "\(folder.path)/destination")
        await stage.end()
    }

    @Test("a suspended download continues where it was")
    func suspension() async throws {
        let stage = try stage { try Self.serve($0) }
        let task = try stage.manager.downloadTask(with: HTTPSessionRequest(url: url))
        task.downloadDelegate.downloadTaskDidWriteData = { task, _, total, _ in
            if total < 3_000_000 { task.suspend() }
        }
        let waiting = beside { try await task.value() }
        for _ in 0..<3 {
            try await eventually("a pause or the end") { task.state != .running }
            task.resume()
        }
        task.downloadDelegate.downloadTaskDidWriteData = nil
        task.resume()
        let isWhole = try file(try await waiting.value.path) == Self.body
        #expect(isWhole)
        await stage.end()
    }
}
