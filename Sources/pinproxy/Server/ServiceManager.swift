import IOCore
import ProxyCore

/// The service manager that has started this process, if one has and listens (systemd's `Type=notify`): it is told when
/// the proxy is ready and when it ends, and while it wants to know that it is alive, that too.
struct ServiceManager {
    private let notifier = ServiceNotifier()
    /// When it is to hear of this process again; nil when it does not care. In nanoseconds of the monotonic clock.
    private(set) var deadline: UInt64?

    /// All listeners are ready.
    mutating func notifyReady() {
        guard let notifier else { return }
        notifier.notify("READY=1")
        if notifier.watchdogTime != nil { deadline = Clock.monotonic }
    }

    func notifyStopping() { notifier?.notify("STOPPING=1") }

    /// Gives a sign of life when one is due, unless a worker is stuck: then the manager will start the proxy anew.
    mutating func turn(_ proxy: ProxyServer) {
        guard let notifier, let due = deadline, Clock.monotonic >= due, let time = notifier.watchdogTime else { return }
        // Three times in the time that there is: one may be late.
        deadline = Clock.monotonic + time / 3
        if proxy.isAlive { notifier.notify("WATCHDOG=1") }
    }
}
