// SPDX-License-Identifier: Apache-2.0
import IOCore
import ProxyCore

/// The service manager that started this process, if it expects notifications (systemd's `Type=notify`): about
/// readiness, about the stop, and regular ones as a watchdog.
struct ServiceManager {
    private let notifier = ServiceNotifier()
    /// The time of the next watchdog notification in nanoseconds of the monotonic clock; nil without a watchdog.
    private(set) var deadline: UInt64?

    /// Reports that all listeners are ready.
    mutating func notifyReady() {
        guard let notifier else { return }
        notifier.notify("READY=1")
        if notifier.watchdogTime != nil { deadline = Clock.monotonic }
    }

    /// Reports the begin of a reload that was asked for. With systemd, `systemctl reload` then returns when it has ended
    /// (systemd.service(5), `Type=notify-reload`, which asks for the time, too).
    func notifyReloading() {
        notifier?.notify("RELOADING=1\nMONOTONIC_USEC=\(Clock.monotonic / 1000)")
    }

    /// Reports that the former or the new policy is in force.
    func notifyReloaded() { notifier?.notify("READY=1") }

    func notifyStopping() { notifier?.notify("STOPPING=1") }

    /// Sends a due watchdog notification, unless a worker's loop has been in one turn for the watchdog's time (at most ten seconds): the
    /// service manager then restarts the proxy.
    mutating func turn(_ proxy: ProxyServer) {
        guard let notifier, let due = deadline, Clock.monotonic >= due, let time = notifier.watchdogTime else { return }
        // Three notifications in each interval: one may be late. Not more often than the main thread waits: poll(2) has milliseconds.
        deadline = Clock.monotonic + max(time / 3, 1_000_000)
        if proxy.isAlive(within: time) { notifier.notify("WATCHDOG=1") }
    }
}
