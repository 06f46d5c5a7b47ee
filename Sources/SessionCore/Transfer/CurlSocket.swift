import CLibcurl
import CShims
import IOCore

/// A descriptor that libcurl uses, on our loop.
///
/// Sockets that libcurl opened through us stay registered between transfers: with each transfer libcurl says REMOVE
/// and then asks again, and answering both with system calls would cost more than all else of a small request.
///
/// libcurl closes some without a word: those of a connection that is given up while it is made, and the losers among
/// several addresses. The number may be that of a client's connection by the time that libcurl, or its end, comes back to
/// it, so that nothing is done to a registration that is not this object's own.
final class CurlSocket: EventHandler {
    let descriptor: Int32
    /// Opened through `TransferPool.open`, so that its closing will be told too.
    let isOwn: Bool
    private unowned(unsafe) let pool: TransferPool
    private var registered = false
    /// What libcurl waits for now; empty between transfers.
    private var wanted: Readiness = []

    init(descriptor: Int32, isOwn: Bool, pool: TransferPool) {
        self.descriptor = descriptor
        self.isOwn = isOwn
        self.pool = pool
    }

    /// libcurl waits for that; false when the system refuses.
    func want(_ readiness: Readiness) {
        wanted = readiness
        if registered, pool.loop.modify(descriptor, readiness, of: self) { return }
        registered = (try? pool.loop.register(descriptor, readiness, self)) != nil
    }

    /// libcurl waits for nothing now.
    func wantNothing() {
        wanted = []
        if !isOwn { unregister() }
    }

    func unregister() {
        guard registered else { return }
        registered = false
        pool.loop.unregister(descriptor, of: self)
    }

    override func ready(_ readiness: Readiness) {
        guard !wanted.isEmpty else { return readyWhileIdle() }
        var mask: Int32 = 0
        if readiness.contains(.readable) || readiness.contains(.peerClosed) { mask |= CURL_CSELECT_IN }
        if readiness.contains(.writable) { mask |= CURL_CSELECT_OUT }
        if readiness.contains(.failed) || readiness.contains(.hungUp) { mask |= CURL_CSELECT_ERR | CURL_CSELECT_IN }
        pool.act(on: descriptor, mask)
    }

    private func readyWhileIdle() {
        if isOwn, pool.isSilent(descriptor) {
            // libcurl has waited for more than is looked for now, or has read what this event was about.
            _ = pool.loop.modify(descriptor, .readable, of: self)
            return
        }
        // An idle connection speaks. Where its origin has closed it, libcurl sees that when it would use it again.
        if isOwn { pool.spokeWhileIdle(descriptor) }
        unregister()
    }
}
