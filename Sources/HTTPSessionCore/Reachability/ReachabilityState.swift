// SPDX-License-Identifier: Apache-2.0
import IOCore
import SessionCore

/// The state that the users of a `NetworkReachabilityManager` share with its listening thread.
///
/// `@unchecked Sendable`: everything mutable is accessed with `lock` held.
final class ReachabilityState: @unchecked Sendable {
    typealias Status = NetworkReachabilityStatus

    /// The listening thread, and its monitor.
    private final class Listening: Sendable {
        let loop: EventLoop
        let monitor: ReachabilityMonitor
        let thread: LoopThread

        init(loop: EventLoop, monitor: ReachabilityMonitor) throws(IOFailure) {
            self.loop = loop
            self.monitor = monitor
            thread = try LoopThread(name: "reachability") { loop.run() }
        }
    }

    private let lock = PosixLock()
    private var current: Status = .unknown
    private var listening: Listening?
    private var listener: (@Sendable (Status) -> Void)?
    /// The number of the listening thread, by which reports of a stopped one are recognised.
    private var number: UInt64 = 0

    var status: Status { lock.withLock { current } }
    var isListening: Bool { lock.withLock { listening != nil } }

    func start(
        _ target: ReachabilityMachine.Target,
        _ listener: @escaping @Sendable (Status) -> Void
    ) throws(SessionError) {
        stop()
        do throws(IOFailure) {
            let loop = try EventLoop()
            let mine = lock.withLock {
                number += 1
                self.listener = listener
                return number
            }
            let monitor = try ReachabilityMonitor(target, loop: loop) { [weak self] in self?.report($0, from: mine) }
            try monitor.start()
            let started = try Listening(loop: loop, monitor: monitor)
            // The listener, or another thread, may have stopped it meanwhile.
            let isWanted = lock.withLock {
                guard number == mine else { return false }
                listening = started
                return true
            }
            if !isWanted { stopListening(started) }
        } catch {
            stop()
            throw SessionError(.internal, "Changes of the network cannot be watched: \(error).")
        }
    }

    func stop() {
        let former = lock.withLock {
            defer { listening = nil }
            number += 1
            listener = nil
            current = .unknown
            return listening
        }
        former.map(stopListening)
    }

    private func stopListening(_ listening: Listening) {
        listening.loop.submit {
            listening.monitor.stop()
            listening.loop.stop()
        }
        // The listener itself may call this: its thread cannot wait for itself.
        if listening.thread.isCurrent { listening.thread.detach() } else { listening.thread.join() }
    }

    private func report(_ status: Status, from number: UInt64) {
        let listener = lock.withLock { () -> (@Sendable (Status) -> Void)? in
            guard number == self.number else { return nil }
            current = status
            return self.listener
        }
        listener?(status)
    }
}
