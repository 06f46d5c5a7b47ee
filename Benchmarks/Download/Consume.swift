// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionCore
import ServerTrust
import SessionCore

/// A child: reads a large body as a stream, much slower than its origin can send it.
struct Consume {
    let url: String
    let anchors: String
    /// The SHA-256 of the body.
    let expected: String

    /// The consumer waits so long after each of its pieces, which are not longer than a megabyte together.
    private static let pause = Duration.milliseconds(5)
    private static let pauseSize = 1 << 20
    /// More memory than at its beginning, at any time: the buffers of a stream and of a connection.
    private static let mostGrowth = 8.0

    init(_ arguments: [String]) throws {
        guard arguments.count == 4 else { throw DownloadBenchmark.Failure(description: "arguments of a child") }
        url = arguments[1]
        anchors = arguments[2]
        expected = arguments[3]
    }

    func run() async throws {
        let pem = [UInt8](try Data(contentsOf: URL(fileURLWithPath: anchors)))
        let manager = try HTTPSessionManager(
            serverTrust: SessionTrust(anchors: TrustAnchors(certificates: try Certificate.certificates(in: pem)))
        )
        // The memory of a session at work, not of one that has just been made.
        _ = try await manager.session.dataTask(with: HTTPSessionRequest(url: url, method: .head)).value()
        let memory = MemoryGauge()
        let begin = ContinuousClock.now
        let digest = RunningDigest()
        var received = 0
        var sincePause = 0
        for try await chunk in try await manager.stream(HTTPSessionRequest(url: url)).chunks {
            digest.update(chunk)
            received += chunk.count
            sincePause += chunk.count
            if sincePause >= Self.pauseSize {
                sincePause = 0
                try await Task.sleep(for: Self.pause)
            }
        }
        let seconds = begin.duration(to: .now) / .seconds(1)
        let sizes = memory.end()
        let numbers = [Double(received) / Double(1 << 20), seconds, sizes.start, sizes.most, sizes.end]
        print("consumer  " + numbers.map { String(format: "%10.1f", $0) }.joined())
        await manager.session.invalidateSession(cancelingTasks: true)
        guard digest.text == expected else {
            throw DownloadBenchmark.Failure(description: "the consumer got other bytes")
        }
        guard sizes.most - sizes.start <= Self.mostGrowth else {
            throw DownloadBenchmark.Failure(description: "the consumer took more than \(Self.mostGrowth) MB")
        }
    }
}
