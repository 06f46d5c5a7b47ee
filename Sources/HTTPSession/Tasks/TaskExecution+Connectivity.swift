import HTTPCore
import IOCore
import SessionCore

/// A task that waits for the network. Belongs to the loop.
final class ConnectivityWait {
    /// Why the task has not got through.
    let error: SessionError
    /// What looks at the network, as long as it is held.
    var watch: AnyObject?
    var timer: LoopTimer?
    var hasNotified = false

    init(_ error: SessionError) { self.error = error }
}

/// Looks at the network for a task: tells, at once and at each change, whether a host (nil: the network as a whole) can
/// be reached, for as long as what it gives is held.
typealias ConnectivityWatch =
    @Sendable (_ host: Host?, _ report: @escaping @Sendable (_ isReachable: Bool) -> Void) throws(SessionError) ->
    AnyObject

extension TaskExecution {
    /// Lets the task wait instead of failing, if it shall and the network is why.
    ///
    /// - Returns: false when the error stands.
    func waitForConnectivity(after error: SessionError?) -> Bool {
        guard session.configuration.waitsForConnectivity, let error, let host = url?.origin.host,
            error.code == .dnsFailed || error.code == .connectFailed
        else { return false }
        let wait = ConnectivityWait(error)
        // A name without an address says nothing of the network.
        let place = error.code == .dnsFailed ? nil : host
        do throws(SessionError) {
            wait.watch = try session.configuration.connectivity(place) { [weak self, loop = session.loop] isReachable in
                loop.submit { [weak self] in self?.connectivityChanged(isReachable) }
            }
        } catch {
            return false
        }
        waiting = wait
        if let left = remainingTime {
            let timer = LoopTimer { [weak self] in self?.giveUpWaiting() }
            wait.timer = timer
            session.loop.arm(timer, after: left)
        }
        return true
    }

    private func connectivityChanged(_ isReachable: Bool) {
        guard let wait = waiting, let task else { return }
        if !isReachable {
            guard !wait.hasNotified else { return }
            wait.hasNotified = true
            session.hookBox.hooks.taskIsWaitingForConnectivity?(task)
        } else if wait.hasNotified {
            endWaiting()
            startHop()
        } else {
            giveUpWaiting()
        }
    }

    private func giveUpWaiting() {
        guard let error = waiting?.error else { return }
        endWaiting()
        finish(error)
    }

    func endWaiting() {
        if let timer = waiting?.timer { session.loop.remove(timer) }
        waiting = nil
    }
}

extension URLSessionManager.Configuration {
    /// By the kernel's routes.
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
