// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("A request's own fields", .onOwnThreads)
struct OwnFieldsTests {
    private typealias Stage = ManagerStage

    /// The request as the origin receives it.
    private func stage() throws -> Stage {
        try Stage { request in
            OriginResponse.text("\(request.target) \(request["X-Own"] ?? "-") \(request["Accept"] ?? "-")")
        }
    }

    private func request(_ method: HTTPMethod, _ path: String = "/") throws -> HTTPSessionRequest {
        var request = HTTPSessionRequest(url: Stage.url(path), method: method)
        request.headers.append(name: "X-Own", value: "mine")
        request.headers.append(name: "Accept", value: "text/x")
        return request
    }

    @Test("own fields go out with each kind of upload")
    func uploads() async throws {
        let stage = try stage()
        let folder = try TemporaryFolder()
        let path = try folder.write("content", as: "file")
        let manager = stage.manager
        var streamed = try request(.post)
        streamed.body = .source(try .file(path))
        let tasks = [
            try manager.uploadTask(with: try request(.post), from: [1]),
            try manager.uploadTask(with: try request(.put), fromFile: path),
            try manager.uploadTask(withStreamedRequest: streamed),
        ]
        for task in tasks {
            #expect(String(decoding: try await task.value().data, as: UTF8.self) == "/ mine text/x")
        }
        #expect(stage.origin.requests.map(\.body.count) == [1, 7, 7])
        await stage.end()
    }

    @Test("own fields go out with a download, and again when it resumes")
    func downloads() async throws {
        let stage = try stage()
        let folder = try TemporaryFolder()
        let target = "\(folder.path)/file"
        var request = try HTTPRequestSerializer().request(.get, Stage.url("/f?a=1"), parameters: ["b": ["c", "d"]])
        request.headers["X-Own"] = "mine"
        request.headers["Accept"] = "text/x"
        _ = try await stage.manager.downloadTask(with: request) { _, _ in (target, []) }.value()
        let content = try String(contentsOfFile: target, encoding: .utf8)
        #expect(content == "/f?a=1&b%5B%5D=c&b%5B%5D=d mine text/x")
        await stage.end()
    }

    @Test("a data task that becomes a download keeps its own fields")
    func becomesDownload() async throws {
        let stage = try stage()
        let folder = try TemporaryFolder()
        let target = "\(folder.path)/file"
        let done = Monitor(false)
        stage.manager.dataTaskDidReceiveResponse = { _, _ in .becomeDownload }
        stage.manager.dataTaskDidBecomeDownloadTask = { _, download in
            download.downloadDelegate.destination = { _, _ in (target, []) }
        }
        stage.manager.taskDidComplete = { task, _ in if task is DownloadTask { done.with { $0 = true } } }
        let task = try stage.manager.dataTask(with: try request(.get, "/data"))
        task.resume()
        try await eventually("the download") { done.with { $0 } }
        #expect(try String(contentsOfFile: target, encoding: .utf8) == "/data mine text/x")
        await stage.end()
    }
}
