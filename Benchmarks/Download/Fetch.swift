// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionCore
import ServerTrust
import SessionCore

/// A child: fetches the file up to some byte and leaves resume data, or goes on with what another has left.
struct Fetch {
    let url: String
    let anchors: String
    let folder: String
    let target: String
    /// Nil for all.
    let end: Int64?

    init(_ arguments: [String]) throws {
        guard arguments.count == 6 else { throw DownloadBenchmark.Failure(description: "arguments of a child") }
        url = arguments[1]
        anchors = arguments[2]
        folder = arguments[3]
        target = arguments[4]
        end = Int64(arguments[5])
    }

    func run() async throws {
        let pem = [UInt8](try Data(contentsOf: URL(fileURLWithPath: anchors)))
        var configuration = URLSessionManager.Configuration()
        configuration.temporaryFolder = folder
        let manager = try URLSessionManager(
            configuration: configuration,
            serverTrust: SessionTrust(anchors: TrustAnchors(certificates: try Certificate.certificates(in: pem)))
        )
        let resumeFile = URL(fileURLWithPath: "\(folder)/resume")
        let target = target
        let destination: DownloadDestination = { _, _ in (target, []) }
        let task: DownloadTask
        if end == nil {
            let data = [UInt8](try Data(contentsOf: resumeFile))
            task = try manager.downloadTask(withResumeData: data, destination: destination)
        } else {
            task = try manager.downloadTask(with: HTTPSessionRequest(url: url), destination: destination)
        }
        // The memory of a session at work, not of one that has just been made.
        _ = try await manager.dataTask(with: HTTPSessionRequest(url: url, method: .head)).value()
        let memory = MemoryGauge()
        let begin = ContinuousClock.now
        if let end {
            task.downloadDelegateHook { written in if written >= end { task.suspend() } }
            task.resume()
            while task.countOfBytesReceived < end, task.error == nil { try await Task.sleep(for: .milliseconds(5)) }
            guard let data = await task.cancelByProducingResumeData() else {
                throw DownloadBenchmark.Failure(description: "no resume data: \(task.error?.details ?? "")")
            }
            try Data(data).write(to: resumeFile)
            report("first", task.countOfBytesReceived, begin.duration(to: .now), memory)
        } else {
            let resumed = ResumedOffset()
            task.downloadDelegateResumed { resumed.value = $0 }
            let answer = try await task.value()
            guard answer.response.status == 206 else {
                throw DownloadBenchmark.Failure(description: "the origin did not send the rest")
            }
            report("second", task.countOfBytesReceived - resumed.value, begin.duration(to: .now), memory)
        }
        await manager.invalidateSession(cancelingTasks: true)
    }

    private func report(_ name: String, _ bytes: Int64, _ time: Duration, _ memory: MemoryGauge) {
        let seconds = time / .seconds(1)
        let megabytes = Double(bytes) / Double(1 << 20)
        let cpu = Double(clock()) / Double(CLOCKS_PER_SEC)
        let sizes = memory.end()
        let numbers = [megabytes, seconds, Double(bytes) / 1e6 / seconds, cpu, sizes.start, sizes.most, sizes.end]
        let texts = numbers.map { String(format: "%8.1f", $0) }
        print(name.padding(toLength: 10, withPad: " ", startingAt: 0) + texts.joined())
    }
}

/// Written on the session's loop before the end, read after it.
private final class ResumedOffset: @unchecked Sendable {
    private let lock = NSLock()
    private var offset: Int64 = 0

    var value: Int64 {
        get { lock.withLock { offset } }
        set { lock.withLock { offset = newValue } }
    }
}

extension DownloadTask {
    func downloadDelegateHook(_ body: @escaping @Sendable (_ written: Int64) -> Void) {
        (delegate as? DownloadTaskDelegate)?.downloadTaskDidWriteData = { _, _, written, _ in body(written) }
    }

    func downloadDelegateResumed(_ body: @escaping @Sendable (_ offset: Int64) -> Void) {
        (delegate as? DownloadTaskDelegate)?.downloadTaskDidResumeAtOffset = { _, offset, _ in body(offset) }
    }
}
