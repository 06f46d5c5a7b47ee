import Glibc
import IOCore
import Synchronization

/// Hands the signals that this process gets on to its child, from a thread of its own.
///
/// A signal that the terminal sends (Ctrl-C) goes to the child by itself, because both are in one process group.
final class SignalForwarder: Sendable {
    private static let forwarded = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2]

    /// The child while its number is its own, and what happened after it ended. Locked by the thread of the forwarder
    /// and the one that waits for the child.
    private let child = Mutex<ChildProcess?>(nil)
    private let isHurried = Atomic<Bool>(false)

    /// Blocks the signals, in this thread and all that it starts from now on.
    ///
    /// - Returns: the mask as it was.
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

    /// Forwards from now on; the thread ends with the process.
    func start(_ child: ChildProcess) throws(IOFailure) {
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
            // SI_KERNEL: from the terminal, which told the child as well.
            if information.si_code != 0x80 { child.send(signal) }
        }
    }

    /// From now on signals are for this process: they hurry its end.
    func forgetChild() { child.withLock { $0 = nil } }

    var wasHurried: Bool { isHurried.load(ordering: .relaxed) }
}
