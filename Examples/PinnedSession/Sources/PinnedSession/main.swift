// SPDX-License-Identifier: Apache-2.0
// Downloads a file from a pinned server, with progress, and says how long each phase took.
//
//   PinnedSession URL FILE PINS.json [CA.pem]

import Glibc
import HTTPCore
import HTTPSession
import ServerTrust
import SessionCore

let words = CommandLine.arguments
guard (4...5).contains(words.count) else {
    print("usage: PinnedSession URL FILE PINS.json [CA.pem]")
    exit(64)
}

do {
    let anchors =
        words.count == 5
        ? TrustAnchors(certificates: try Certificate.certificates(file: words[4])) : try TrustAnchors.system()
    // Host by host, which keys are pinned. A host that the file does not name is refused.
    let trust = SessionTrust(
        anchors: anchors,
        pinnedDomains: try PinFile.load(path: words[3]).domains,
        allHostsMustBeEvaluated: true
    )
    let manager = try URLSessionManager(serverTrust: trust)

    let task = try manager.downloadTask(with: HTTPSessionRequest(url: words[1])) { _, _ in
        (words[2], [.createIntermediateDirectories, .removePreviousFile])
    }
    if let delegate = task.delegate as? DownloadTaskDelegate {
        delegate.setProgressHandler { progress in
            print("\(progress.completedBytes) of \(progress.totalBytes.map(String.init) ?? "?") bytes")
        }
    }
    let answer = try await task.value()
    await manager.invalidateSession(cancelingTasks: false)

    let transaction = answer.metrics.transaction
    print("\(answer.response.status), \(answer.path), \(answer.metrics.taskDuration) in all,")
    if let tls = transaction.secureConnection { print("TLS took \(tls.upperBound - tls.lowerBound) of them") }
} catch let error as SessionError {
    // `code` is for programs, `details` for people.
    print("\(error.code.rawValue): \(error.details)")
    for offered in error.evaluation?.offeredPins ?? [] { print("  offered: \(offered.pin) \(offered.subject)") }
    exit(1)
} catch {
    print(error)
    exit(1)
}
