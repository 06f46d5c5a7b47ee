// SPDX-License-Identifier: Apache-2.0
import IOCore
import TestSupport
import Testing

@testable import ProxyCore

@Suite("A body that is kept for a redirect", .onOwnThreads)
struct ReplayBufferTests {
    @Test("a body's end waits until it is known whether all was kept")
    func end() throws {
        let loop = try EventLoop()
        let files = FileThread()
        defer { files.stop() }
        let calls = Monitor(0)
        func keep() -> ReplayBuffer {
            ReplayBuffer(limit: 1 << 20, files: files, loop: loop, resume: { calls.with { $0 += 1 } }, fail: {})
        }
        let gate = Gate()
        files.submit { try? gate.pass() }

        let small = keep()
        let few = [UInt8](repeating: 7, count: ReplayBuffer.memoryLimit)
        small.append(few.span)
        let isSmallHeld = small.holdEnd(few.span)
        #expect(!isSmallHeld && !small.holdsEnd && small.releaseEnd() == nil)

        let large = keep()
        let end: [UInt8] = [1, 2, 3]
        large.append(few.span)
        large.append(end.span)
        // The file is not written as long as the thread for files has other work.
        let isHeld = large.holdEnd(end.span)
        #expect(isHeld && large.releaseEnd() == nil && large.holdsEnd)
        // The request's end, which comes behind the last byte, waits as well.
        let nothing: [UInt8] = []
        let isEndHeld = large.holdEnd(nothing.span)
        #expect(isEndHeld)
        gate.open()
        for _ in 0..<1000 where calls.with({ $0 }) == 0 { loop.turn(waitingAtMost: .milliseconds(100)) }
        #expect(calls.with { $0 } == 1)
        #expect(large.releaseEnd() == end && !large.holdsEnd && !large.isLost)
        let isHeldAgain = large.holdEnd(end.span)
        #expect(!isHeldAgain)
    }
}
