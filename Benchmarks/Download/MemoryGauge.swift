// SPDX-License-Identifier: Apache-2.0
import Foundation

/// The process's private memory (`RssAnon` of proc(5)), looked at every ten milliseconds. In MB of 2^20 bytes.
///
/// `@unchecked Sendable`: what changes is behind `lock`.
final class MemoryGauge: @unchecked Sendable {
    private let lock = NSLock()
    private let start = MemoryGauge.now
    private var most = MemoryGauge.now
    private var isOver = false

    init() {
        Thread.detachNewThread { [self] in
            while true {
                Thread.sleep(forTimeInterval: 0.01)
                let size = Self.now
                let isOver = lock.withLock {
                    most = max(most, size)
                    return self.isOver
                }
                if isOver { return }
            }
        }
    }

    func end() -> (start: Double, most: Double, end: Double) {
        let size = Self.now
        return lock.withLock {
            isOver = true
            return (start, max(most, size), size)
        }
    }

    private static var now: Double {
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") }
        let kilobytes = line?.split(separator: " ").dropFirst().first.flatMap { Double($0) } ?? 0
        return kilobytes / 1024
    }
}
