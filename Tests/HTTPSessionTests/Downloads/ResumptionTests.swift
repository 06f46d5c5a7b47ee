// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

extension DownloadTests {
    @Test("resume data outlives the session: another session fetches the rest")
    func resumption() async throws {
        let first = try stage { try Self.serve($0, cutAt: 1_000_000) }
        let headers: HTTPHeaders = ["X-Own": "kept", "Authorization": "Bearer first"]
        let task = try first.manager.downloadTask(with: HTTPSessionRequest(url: url, headers: headers))
        task.resume()
        try await eventually("a part") { task.countOfBytesReceived == 1_000_000 }
        let data = try #require(await task.cancelByProducingResumeData())
        #expect(task.error?.code == .cancelled)
        await first.end()
        #expect(partials.count == 1)

        let second = try stage { try Self.serve($0) }
        second.manager.downloadTaskDidResumeAtOffset = { [second] _, offset, total in
            second.note("\(offset) of \(total ?? -1)")
        }
        let credentials: HTTPHeaders = ["Authorization": "Bearer second"]
        let target = "\(folder.path)/whole"
        let rest = try second.manager.downloadTask(withResumeData: data, headers: credentials) { _, response in
            #expect(response.status == 206)
            return (target, [])
        }
        let response = try await rest.value()
        let isWhole = try file(response.path) == Self.body
        #expect(isWhole)
        #expect(second.log.with { $0 } == ["1000000 of 3000000"])
        #expect(rest.countOfBytesReceived == 3_000_000)
        #expect(rest.countOfBytesExpectedToReceive == 3_000_000)
        let request = second.origin.requests[0]
        #expect(request["Range"] == "bytes=1000000-")
        #expect(request["If-Range"] == "\"v1\"")
        #expect(request["X-Own"] == "kept")
        #expect(request["Authorization"] == "Bearer second")
        #expect(partials.isEmpty)
        await second.end()
    }

    /// The resume data of a download after a million bytes.
    private func leftOver() async throws -> [UInt8] {
        let stage = try stage { try Self.serve($0, cutAt: 1_000_000) }
        let task = try stage.manager.downloadTask(with: HTTPSessionRequest(url: url))
        task.resume()
        try await eventually("a part") { task.countOfBytesReceived == 1_000_000 }
        let produced = Monitor<[[UInt8]?]>([])
        task.cancel { data in produced.with { $0.append(data) } }
        try await eventually("resume data") { produced.with { !$0.isEmpty } }
        await stage.end()
        return try #require(produced.with { $0[0] })
    }

    @Test("another version at the origin starts the download over")
    func changed() async throws {
        let data = try await leftOver()
        let stage = try stage { try Self.serve($0, tag: "\"v2\"") }
        stage.manager.downloadTaskDidResumeAtOffset = { [stage] _, _, _ in stage.note("resumed") }
        let task = try stage.manager.downloadTask(withResumeData: data)
        let response = try await task.value()
        #expect(response.response.status == 200)
        let isWhole = try file(response.path) == Self.body
        #expect(isWhole)
        #expect(stage.log.with { $0 }.isEmpty)
        await stage.end()
    }

    @Test("an origin that refuses the rest fails the task; the file stays resumable")
    func refusedRest() async throws {
        let data = try await leftOver()
        let bad = try stage { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n")
            connection.readToEnd()
        }
        let task = try bad.manager.downloadTask(withResumeData: data)
        await #expect { try await task.value() } throws: { $0.sessionCode == .responseInvalid }
        let again = try #require(task.downloadDelegate.resumeData)
        await bad.end()
        let good = try stage { try Self.serve($0) }
        let response = try await good.manager.downloadTask(withResumeData: again).value()
        #expect(response.response.status == 206)
        let isWhole = try file(response.path) == Self.body
        #expect(isWhole)
        await good.end()
    }

    @Test(
        "after a part of something else the whole is requested, once",
        arguments: ["bytes 999999-2999999/3000000", "bytes 1000000-2999998/2999999", "bytes 1000000-2999999/3000000"]
    )
    func misfit(range: String) async throws {
        let data = try await leftOver()
        let stage = try stage { connection in
            while let request = try connection.readRequest() {
                guard request["Range"] != nil else {
                    try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(Self.body.count)\r\n\r\n")
                    try connection.write(Self.body)
                    continue
                }
                try connection.write(
                    "HTTP/1.1 206 X\r\nETag: \"v2\"\r\nContent-Range: \(range)\r\nContent-Length: 4\r\n\r\nevil"
                )
            }
        }
        let task = try stage.manager.downloadTask(withResumeData: data)
        let response = try await task.value()
        #expect(response.response.status == 200)
        let isWhole = try file(response.path) == Self.body
        #expect(isWhole)
        #expect(stage.origin.requests.map { $0["Range"] != nil } == [true, false])
        #expect(stage.origin.requests[1]["If-Range"] == nil)
        await stage.end()
    }

    @Test(
        "a changed partial file is left alone, and the whole is requested",
        arguments: ["one byte", "cut", "longer", "other bytes", "link", "FIFO"]
    )
    func changedFile(how: String) async throws {
        let data = try await leftOver()
        let name = try #require(partials.first)
        let path = "\(folder.path)/\(name)"
        switch how {
        case "one byte", "longer":
            let handle = try #require(FileHandle(forUpdatingAtPath: path))
            try handle.seek(toOffset: how == "longer" ? 1_000_000 : 999_999)
            handle.write(Data([Self.body[999_999] ^ 1]))
            try handle.close()
        case "cut": truncate(path, 999_999)
        case "other bytes": try Data(count: 1_000_000).write(to: URL(fileURLWithPath: path))
        case "link":
            try FileManager.default.moveItem(atPath: path, toPath: path + "2")
            symlink(path + "2", path)
        default:
            unlink(path)
            mkfifo(path, 0o600)
        }
        let stage = try stage { try Self.serve($0) }
        let target = "\(folder.path)/whole"
        let response = try await stage.manager.downloadTask(withResumeData: data) { _, _ in (target, []) }.value()
        let isWhole = try file(response.path) == Self.body
        #expect(isWhole)
        // Bytes behind the part do no harm: they are cut off.
        #expect(stage.origin.requests.map { $0["Range"] != nil } == [how == "longer"])
        await stage.end()
    }

    @Test(
        "a rest whose length differs from its range leaves no file",
        arguments: [-1, 1, -2_000_000],
        [true, false]
    )
    func otherLength(difference: Int, isChunked: Bool) async throws {
        let data = try await leftOver()
        let stage = try stage { connection in
            _ = try connection.readRequest()
            let rest = Array(Self.body[1_000_000...]) + [1]
            let sent = Array(rest.prefix(2_000_000 + difference))
            let framing = isChunked ? "Transfer-Encoding: chunked" : "Connection: close"
            try connection.write(
                "HTTP/1.1 206 X\r\nETag: \"v1\"\r\nContent-Range: bytes 1000000-2999999/3000000\r\n\(framing)\r\n\r\n"
            )
            if isChunked, !sent.isEmpty { try connection.write("\(String(sent.count, radix: 16))\r\n") }
            try connection.write(sent)
            guard isChunked else { return connection.close() }
            try connection.write((sent.isEmpty ? "" : "\r\n") + "0\r\n\r\n")
            connection.readToEnd()
        }
        let target = "\(folder.path)/whole"
        let task = try stage.manager.downloadTask(withResumeData: data) { _, _ in (target, []) }
        await #expect { try await task.value() } throws: { $0.sessionCode == .responseInvalid }
        #expect(access(target, F_OK) != 0 && partials.isEmpty)
        await stage.end()
    }

    @Test("an unrequested part is no download")
    func unaskedPart() async throws {
        let stage = try stage { connection in
            _ = try connection.readRequest()
            try connection.write(
                "HTTP/1.1 206 X\r\nContent-Range: bytes 0-3/9\r\nContent-Length: 4\r\n\r\nabcd"
            )
            connection.readToEnd()
        }
        let task = try stage.manager.downloadTask(with: HTTPSessionRequest(url: url))
        await #expect { try await task.value() } throws: { $0.sessionCode == .responseInvalid }
        #expect(partials.isEmpty)
        await stage.end()
    }

    @Test("two tasks do not share a partial file: the second requests the whole")
    func oneWriter() async throws {
        let data = try await leftOver()
        let stage = try stage { try Self.serve($0) }
        let first = try stage.manager.downloadTask(withResumeData: data)
        first.downloadDelegate.downloadTaskDidResumeAtOffset = { task, _, _ in task.suspend() }
        first.resume()
        try await eventually("the first has the file") { first.state == .suspended }
        let second = try await stage.manager.downloadTask(withResumeData: data).value()
        #expect(second.response.status == 200)
        let other = try await first.value()
        #expect(other.response.status == 206)
        #expect(other.path != second.path)
        for path in [other.path, second.path] {
            let isWhole = try file(path) == Self.body
            #expect(isWhole)
        }
        await stage.end()
    }

    @Test("without resumable data the whole is requested", arguments: [true, false])
    func wholeInstead(fileIsGone: Bool) async throws {
        let data = try await leftOver()
        if fileIsGone { for name in partials { unlink("\(folder.path)/\(name)") } }
        let stage = try stage { connection in
            while let request = try connection.readRequest() {
                if request["Range"] != nil {
                    try connection.respond(status: "416 Range Not Satisfiable")
                } else {
                    try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(Self.body.count)\r\n\r\n")
                    try connection.write(Self.body)
                }
            }
        }
        let response = try await stage.manager.downloadTask(withResumeData: data).value()
        let isWhole = try file(response.path) == Self.body
        #expect(isWhole)
        #expect(stage.origin.requests.map { $0["Range"] != nil } == (fileIsGone ? [false] : [true, false]))
        await stage.end()
    }

    @Test("64 MB with a restart are one file, with little of it in memory")
    func large() async throws {
        let nginx = try NginxOrigin(Stage.server)
        let path = "\(nginx.folder.path)/files/large"
        let count = 64 << 20
        var numbers = SeededGenerator(seed: 64)
        let words = (0..<count / 8).map { _ in numbers.next() }
        try words.withUnsafeBytes { try Data($0).write(to: URL(fileURLWithPath: path)) }
        var data: [UInt8]?
        for part in ["first", "second"] {
            var configuration = URLSessionManager.Configuration()
            configuration.temporaryFolder = folder.path
            let manager = try URLSessionManager(
                configuration: configuration,
                serverTrust: SessionTrust(anchors: TestPKI.shared.anchors)
            )
            let waiting = Monitor<Int64>(0)
            manager.downloadTaskDidWriteData = { task, _, written, _ in
                waiting.with { $0 = max($0, task.countOfBytesReceived - written) }
                if part == "first", written >= count / 2 { task.suspend() }
            }
            if let data {
                let response = try await manager.downloadTask(withResumeData: data).value()
                #expect(response.response.status == 206)
                let isSame = FileManager.default.contentsEqual(atPath: path, andPath: response.path)
                #expect(isSame)
            } else {
                let task = try manager.downloadTask(
                    with: HTTPSessionRequest(url: "https://127.0.0.1:\(nginx.port)/files/large")
                )
                task.resume()
                try await eventually("half of it") { task.state == .suspended }
                data = await task.cancelByProducingResumeData()
                #expect(data != nil)
            }
            // Bytes that were on the way when the origin was paused come in addition.
            #expect(waiting.with { $0 } < WriteFlow.highWater + 256 << 10)
            await manager.invalidateSession(cancelingTasks: true)
        }
        #expect(partials.count == 1)
    }

    @Test("nginx serves the rest, by its own entity tag")
    func nginx() async throws {
        let nginx = try NginxOrigin(Stage.server, files: ["large": Self.body])
        var configuration = URLSessionManager.Configuration()
        configuration.temporaryFolder = folder.path
        let manager = try URLSessionManager(
            configuration: configuration,
            serverTrust: SessionTrust(anchors: TestPKI.shared.anchors)
        )
        let task = try manager.downloadTask(
            with: HTTPSessionRequest(url: "https://127.0.0.1:\(nginx.port)/files/large")
        )
        task.downloadDelegate.downloadTaskDidWriteData = { task, _, _, _ in task.suspend() }
        task.resume()
        try await eventually("a part") { task.state == .suspended && task.countOfBytesReceived > 0 }
        let data = try #require(await task.cancelByProducingResumeData())
        let rest = try manager.downloadTask(withResumeData: data)
        let response = try await rest.value()
        #expect(response.response.status == 206)
        let isWhole = try file(response.path) == Self.body
        #expect(isWhole)
        await manager.invalidateSession(cancelingTasks: true)
    }
}
