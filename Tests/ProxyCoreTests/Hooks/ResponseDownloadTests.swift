// SPDX-License-Identifier: Apache-2.0
import Foundation
import IOCore
import TestSupport
import Testing

@testable import ProxyCore

@Suite("A response that becomes a file", .onOwnThreads)
struct ResponseDownloadTests {
    /// A download of two pieces, 100 and 50 bytes, whose thread for files begins when both have come.
    ///
    /// - Parameter check: called with the result, and the sizes of the folder's files directly behind the publication, while the
    ///   download exists.
    private func download(
        _ folder: TemporaryFolder,
        quota: Int,
        length: Int?,
        _ files: FileThread,
        check: (Result<DownloadedFile, Problem>, [Int]) throws -> Void
    ) throws {
        let loop = try EventLoop()
        let results = Monitor<[Result<DownloadedFile, Problem>]>([])
        let sizes = Monitor<[Int]?>(nil)
        let gate = Gate()
        files.submit { try? gate.pass() }
        let download = ResponseDownload(
            directory: folder.path,
            quota: quota,
            length: length,
            name: Array("name".utf8),
            files: files,
            loop: loop,
            resume: {},
            fail: { problem in results.with { $0.append(.failure(problem)) } }
        )
        for count in [100, 50] {
            let piece = [UInt8](repeating: 7, count: count)
            _ = download.append(piece.span)
        }
        download.finish { result in results.with { $0.append(result) } }
        files.submit {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
            let found = names.map { (try? Data(contentsOf: URL(fileURLWithPath: "\(folder.path)/\($0)")).count) ?? -1 }
            sizes.with { $0 = found }
        }
        gate.open()
        for _ in 0..<1000 where sizes.with({ $0 }) == nil { loop.turn(waitingAtMost: .milliseconds(100)) }
        // What the loop submits now comes behind, and what that submits behind it.
        for _ in 0..<4 {
            let isDone = Monitor(false)
            files.submit { loop.submit { isDone.with { $0 = true } } }
            for _ in 0..<1000 where !isDone.with({ $0 }) { loop.turn(waitingAtMost: .milliseconds(100)) }
        }
        let all = results.with { $0 }
        #expect(all.count == 1)
        try check(try #require(all.first), try #require(sizes.with { $0 }))
        withExtendedLifetime(download) {}
    }

    @Test(
        "a published file reserves nothing, although a write ended later",
        arguments: [150, nil]
    )
    func published(length: Int?) throws {
        let folder = try TemporaryFolder()
        let files = FileThread()
        defer { files.stop() }
        try download(folder, quota: 300, length: length, files) { result, sizes in
            #expect(try result.get().count == 150 && sizes == [150])
            let room = Monitor<Bool?>(nil)
            files.submit {
                let hasRoom = try? files.folders.folder(at: folder.path).reserve(150, quota: 300)
                room.with { $0 = hasRoom }
            }
            let hasRoom = try Patience.poll(for: "the thread for files") { room.with { $0 } }
            #expect(hasRoom)
        }
    }

    @Test("a file whose first piece exceeds the quota is not begun again")
    func refused() throws {
        let folder = try TemporaryFolder()
        let files = FileThread()
        defer { files.stop() }
        try folder.write(String(repeating: "x", count: 150), as: "other")
        try download(folder, quota: 249, length: nil, files) { result, sizes in
            guard case .failure(let problem) = result else {
                Issue.record("it was published")
                return
            }
            #expect(problem.code == .quotaReached && sizes == [150])
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["other"])
    }
}
