// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import Synchronization

/// Forwards the signals of this process to its child, on a thread of its own.
///
/// A signal from the terminal (Ctrl-C) reaches the child directly, because both are in one process group.
final class SignalForwarder: Sendable {
    private static let forwarded = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2]

    /// The child, until its process entry is removed. Used by the forwarder's thread and the thread that waits for the
    /// child.
    private let child = Locked<ExecutedProgram?>(nil)
    private let isHurried = Atomic<Bool>(false)

    /// Blocks the signals in this thread and in all threads that it starts later.
    ///
    /// - Returns: the former mask.
    static func blockSignals() -> sigset_t {
        var wanted = waitSet
        var former = sigset_t()
        pthread_sigmask(SIG_BLOCK, &wanted, &former)
        signal(SIGPIPE, SIG_IGN)
        return former
    }

    private static var waitSet: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        for signal in forwarded { sigaddset(&set, signal) }
        return set
    }

    /// Starts forwarding; the thread ends with the process.
    func start(_ child: ExecutedProgram) throws(IOFailure) {
        self.child.withLock { $0 = child }
        _ = try LoopThread(name: "signals") { [self] in
            while true { forwardNext() }
        }
    }

    private func forwardNext() {
        var set = Self.waitSet
        var information = siginfo_t()
        let signal = sigwaitinfo(&set, &information)
        guard signal > 0 else { return }
        child.withLock { child in
            guard let child else { return isHurried.store(true, ordering: .relaxed) }
            // SI_KERNEL: the terminal has sent the signal to the child as well.
            if information.si_code != 0x80 { child.send(signal) }
        }
    }

    /// Later signals are for this process: they make it end sooner.
    func forgetChild() { child.withLock { $0 = nil } }

    var wasHurried: Bool { isHurried.load(ordering: .relaxed) }
}
