// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// Watches the network for a task: reports, at once and at each change, whether a host (nil: the network as a whole) can
/// be reached, for as long as the returned object is held.
typealias ConnectivityWatch =
    @Sendable (_ host: Host?, _ report: @escaping @Sendable (_ isReachable: Bool) -> Void) throws(SessionError) ->
    AnyObject

/// The wait of a task for the network, instead of a failure: until the host is reachable, or the task's time is over.
///
/// `@unchecked Sendable`: the watch reports on its own thread, which only submits work to the loop; everything else is
/// for the loop.
final class ConnectivityWait: @unchecked Sendable {
    /// The error that the task fails with when it waits in vain.
    private let error: SessionError
    private let loop: EventLoop
    private let onEvent: (Event) -> Void
    private var watch: AnyObject?
    private var timer: LoopTimer?
    private var isUnreachable = false
    private var isOver = false

    enum Event {
        /// There is no network, and the task waits; at most once.
        case unreachable
        /// The network is there again: the end of the wait.
        case retry
        /// The end of the wait.
        case fail(SessionError)
    }

    private init(_ error: SessionError, _ loop: EventLoop, _ onEvent: @escaping (Event) -> Void) {
        self.error = error
        self.loop = loop
        self.onEvent = onEvent
    }

    /// Starts to wait after an error that a missing network explains.
    ///
    /// - Parameters:
    ///   - limit: the longest wait; nil for none.
    ///   - onEvent: called on the loop, until the end of the wait or `cancel`.
    /// - Returns: nil when the error has another cause, or the network cannot be watched.
    static func start(
        after error: SessionError,
        host: Host,
        limit: TimeSpan?,
        loop: EventLoop,
        watch: ConnectivityWatch,
        onEvent: @escaping (Event) -> Void
    ) -> ConnectivityWait? {
        guard error.code == .dnsFailed || error.code == .connectFailed else { return nil }
        let wait = ConnectivityWait(error, loop, onEvent)
        // A name without an address says nothing about the network.
        let target = error.code == .dnsFailed ? nil : host
        do throws(SessionError) {
            wait.watch = try watch(target) { [weak wait, loop] isReachable in
                loop.submit { [weak wait] in wait?.connectivityChanged(isReachable) }
            }
        } catch {
            return nil
        }
        if let limit {
            let timer = LoopTimer { [weak wait] in wait?.giveUp() }
            wait.timer = timer
            loop.arm(timer, after: limit)
        }
        return wait
    }

    /// Ends the wait; no event follows.
    func cancel() {
        isOver = true
        if let timer { loop.remove(timer) }
        timer = nil
        watch = nil
    }

    private func connectivityChanged(_ isReachable: Bool) {
        guard !isOver else { return }
        if !isReachable {
            guard !isUnreachable else { return }
            isUnreachable = true
            onEvent(.unreachable)
        } else if isUnreachable {
            cancel()
            onEvent(.retry)
        } else {
            // The network was there all the time, and the error has another cause.
            giveUp()
        }
    }

    private func giveUp() {
        cancel()
        onEvent(.fail(error))
    }
}

extension ConnectivityWait {
    /// Watches the routes of the kernel.
    static let routes: ConnectivityWatch = { host, report throws(SessionError) in
        let manager = host.map { NetworkReachabilityManager(host: $0) } ?? NetworkReachabilityManager()
        try manager.startListening { status in
            switch status {
            case .unknown: break
            case .notReachable: report(false)
            case .reachable: report(true)
            }
        }
        return manager
    }
}
