import CLibcurl
import CShims
import Glibc
import IOCore
import ServerTrust

/// libcurl's multi handle on our loop: owns it, the idle easy handles and the sockets.
///
/// libcurl is driven by `curl_multi_socket_action`: it says which descriptors and which timer it waits for, and is
/// told when they are due (libcurl-multi(3)).
final class TransferPool {
    let loop: EventLoop
    /// How old a connection may be that carries one more request, in nanoseconds.
    let connectionLifetime: UInt64
    /// `LoopSession.sessionDidEvaluateServerTrust`.
    var didEvaluateTrust: ((ConnectionTrust, Endpoint) -> Void)?
    /// The body callback is given the lines of heads, too.
    let getsLinesAsBody = pinproxy_curl_joins_lines()
    private var multi: UnsafeMutableRawPointer?
    private var idle: [Transfer] = []
    /// The transfers under way, at `Transfer.slot`.
    private var active: [Transfer] = []
    /// By descriptor.
    private var sockets: [CurlSocket?] = []
    /// The ports, at our end, of the idle connections on which something came. libcurl does not say which descriptor a
    /// connection has that it uses again, but it says the port.
    private var spokenPorts: [UInt16] = []
    /// The connections without TLS, by the same port.
    private var plainConnections: [(localPort: UInt16, descriptor: Int32)] = []
    private var timer: LoopTimer!
    private var pendingTimer: LoopTimer!
    private var retirement: LoopTimer!
    private var kickPlanned = false
    /// What could not be done while libcurl was on the stack, or is done once for many.
    private var toAdd: [Transfer] = []
    private var toRemove: [Transfer] = []
    private var toContinue: [Transfer] = []
    private var lanes = HostLanes()
    private let connectionsPerHost: Int
    private var workPlanned = false
    /// The transfers for which a record was taken in the call of libcurl under way.
    private var receivers: [Transfer] = []
    private var served: [Transfer] = []
    /// How many bytes have been received in the turn that began at `takenAt`.
    private var taken = 0
    private var takenAt: UInt64 = 0
    /// libcurl is on the stack: handles may not be added or removed.
    private var inside = 0
    /// What is under way is finished, on connections that close then.
    private var isRetired = false
    /// No request begins any more.
    private(set) var isHandingBack = false
    /// Nothing is put off any more: the pool may be gone by then.
    private var isClosing = false
    private var closedSockets = 0

    static let globalReady: Bool = pinproxy_curl_global_init()

    init(loop: EventLoop, configuration: SessionConfiguration) throws(SessionError) {
        self.loop = loop
        connectionLifetime = configuration.connectionLifetimeLimit
        connectionsPerHost = configuration.connectionsPerHost
        guard Self.globalReady else { throw SessionError(.internal, "libcurl could not be set up.") }
        timer = LoopTimer { [unowned self] in act(on: CURL_SOCKET_BAD, 0) }
        pendingTimer = LoopTimer { [unowned self] in takePending() }
        retirement = LoopTimer { [unowned self] in closeIdle() }
        multi = pinproxy_multi_create(
            { _, descriptor, what, owner, _ in
                Unmanaged<TransferPool>.fromOpaque(owner!).takeUnretainedValue().watch(descriptor, what)
                return 0
            },
            { _, milliseconds, owner in
                Unmanaged<TransferPool>.fromOpaque(owner!).takeUnretainedValue().plan(milliseconds)
                return 0
            },
            Unmanaged.passUnretained(self).toOpaque(),
            configuration.connectionPoolSize
        )
        guard multi != nil else { throw SessionError(.internal, "libcurl has no memory for a multi handle.") }
    }

    deinit {
        close()
    }

    /// Ends what is under way and closes all connections.
    func close() {
        guard let closing = multi else { return }
        isClosing = true
        cancelAll()
        doPlannedWork()
        for transfer in idle { transfer.destroy() }
        idle = []
        multi = nil
        curl_multi_cleanup(closing)
        loop.remove(timer)
        loop.remove(pendingTimer)
        loop.remove(retirement)
        receivers = []
        for socket in sockets { socket?.unregister() }
        sockets = []
    }

    func cancelAll() {
        // First: who leaves would let one of these begin.
        for transfer in lanes.waiters { transfer.task?.cancel() }
        for transfer in active { transfer.task?.cancel() }
        for transfer in toAdd { transfer.task?.cancel() }
    }

    /// Ends the tasks of which nothing has been sent with `sessionInvalidated`, and from now on those that would be sent
    /// once more: another session takes the place of this one.
    func handBack() {
        isHandingBack = true
        // First: who leaves would let one of these begin.
        for transfer in lanes.waiters { transfer.task?.finish(.sessionInvalidated) }
        for transfer in active where transfer.attempts == 0 { transfer.task?.finish(.sessionInvalidated) }
        for transfer in toAdd where transfer.attempts == 0 { transfer.task?.finish(.sessionInvalidated) }
    }

    /// Keeps no connection any more: idle ones close now, the others with the transfers that they carry.
    func retireConnections() {
        guard !isRetired else { return }
        isRetired = true
        for transfer in active { transfer.forbidReuse() }
        closeIdle()
    }

    /// Has a connection that carries several exchanges closed with the last of them. libcurl would keep it, and choose it
    /// for every request to come, because it is the oldest.
    func retire(_ record: ConnectionRecord) {
        for transfer in active where transfer.record === record { transfer.forbidReuse() }
    }

    /// Closes the connection that has been idle longest: another one needs its descriptor.
    ///
    /// - Returns: false when there is none.
    func makeRoom() -> Bool {
        let before = closedSockets
        _ = closeIdle(atMost: 1)
        return closedSockets != before
    }

    /// Some at a time, since each takes a farewell: the loop has others to serve.
    private func closeIdle() {
        guard inside == 0 else { return loop.arm(retirement, after: TimeSpan(nanoseconds: 1)) }
        if closeIdle(atMost: 64) { loop.arm(retirement, after: TimeSpan(nanoseconds: 1)) }
        reap()
        takePending()
    }

    /// - Returns: whether there may be more.
    private func closeIdle(atMost count: Int) -> Bool {
        guard inside == 0, let multi, let visitor = pinproxy_idle_visitor() else { return false }
        inside += 1
        let bound = closedSockets + count
        var before: Int
        repeat {
            before = closedSockets
            pinproxy_multi_close_idle(multi, visitor, true)
        } while closedSockets != before && closedSockets < bound
        pinproxy_multi_close_idle(multi, visitor, false)
        curl_easy_cleanup(visitor)
        inside -= 1
        return closedSockets >= bound
    }

    // MARK: Transfers

    func borrow() -> Transfer {
        idle.popLast() ?? Transfer(pool: self)
    }

    /// Adds a transfer that is set up. libcurl starts it at the end of this turn, with all others of the turn.
    func add(_ transfer: Transfer) {
        guard let multi else { return }
        guard inside == 0 else {
            toAdd.append(transfer)
            planWork()
            return
        }
        transfer.slot = active.count
        active.append(transfer)
        if isRetired { transfer.forbidReuse() }
        inside += 1
        let result = curl_multi_add_handle(multi, transfer.easy)
        inside -= 1
        precondition(result == CURLM_OK, "libcurl refused a handle")
    }

    /// Takes a transfer out of libcurl and back into the pool; one that is under way has its connection closed.
    func retire(_ transfer: Transfer) {
        guard inside == 0 else {
            transfer.isRetiring = true
            toRemove.append(transfer)
            planWork()
            return
        }
        transfer.isRetiring = false
        withdraw(transfer)
        transfer.forgetTask()
        release(transfer)
        if multi == nil || idle.count >= 256 || transfer.isWorn { transfer.destroy() } else { idle.append(transfer) }
    }

    /// Takes a transfer out of libcurl.
    func withdraw(_ transfer: Transfer) {
        guard let multi, transfer.slot >= 0 else { return }
        let slot = transfer.slot
        transfer.slot = -1
        let last = active.removeLast()
        if last !== transfer {
            active[slot] = last
            last.slot = slot
        }
        inside += 1
        curl_multi_remove_handle(multi, transfer.easy)
        inside -= 1
    }

    // MARK: Connections to one host

    /// Whether a transfer may have a connection now; otherwise it waits for its turn.
    func admit(_ transfer: Transfer, to endpoint: Endpoint) -> Bool {
        let limit = endpoint.connectionLimit ?? connectionsPerHost
        let lane = lanes.lane(to: endpoint, limit: limit > 0 ? limit : .max)
        transfer.lane = lane
        transfer.isQueued = !lane.queue.enter(transfer, limit: lane.limit)
        return !transfer.isQueued
    }

    /// A transfer needs no connection of its own any more, or waits for none.
    func release(_ transfer: Transfer) {
        guard let lane = transfer.lane else { return }
        transfer.lane = nil
        if transfer.isQueued {
            transfer.isQueued = false
            lane.queue.withdraw(transfer)
        } else {
            lane.queue.leave(limit: lane.limit)?.leaveQueue()
        }
    }

    /// Lets a paused transfer go on at the end of this turn.
    func continueLater(_ transfer: Transfer) {
        toContinue.append(transfer)
        planWork()
    }

    private func planWork() {
        guard !workPlanned, !isClosing else { return }
        workPlanned = true
        // Holds the pool: its manager may let it go before the turn ends.
        loop.atEndOfTurn { [self] in
            workPlanned = false
            doPlannedWork()
        }
    }

    private func doPlannedWork() {
        let removed = toRemove
        toRemove.removeAll(keepingCapacity: true)
        for transfer in removed where transfer.isRetiring { retire(transfer) }
        let added = toAdd
        toAdd.removeAll(keepingCapacity: true)
        // One that was ended meanwhile may serve another task by now, and be with libcurl already, or wait its turn.
        for transfer in added
        where !transfer.isRetiring && transfer.task != nil && transfer.slot < 0 && !transfer.isQueued {
            add(transfer)
        }
        let continued = toContinue
        toContinue.removeAll(keepingCapacity: true)
        inside += 1
        for transfer in continued {
            transfer.continueNow()
            // It was passed over while it was paused.
            mayHavePending(transfer)
        }
        inside -= 1
        reap()
        takePending()
    }

    // MARK: libcurl's events

    func act(on descriptor: Int32, _ mask: Int32) {
        guard let multi else { return }
        var running: Int32 = 0
        inside += 1
        curl_multi_socket_action(multi, descriptor, mask, &running)
        inside -= 1
        reap()
        takePending()
    }

    /// OpenSSL may have read more than libcurl has asked it for, and the socket will not tell of that. Only a record
    /// that was taken leads to another round, so that one that is not there in full ends it.
    ///
    /// Each transfer in its turn, and boundedly: an origin that sends faster than it is read would keep the loop here.
    private func takePending() {
        while !receivers.isEmpty {
            guard !isTurnOver else {
                // In the next turn, behind the sockets that are ready then.
                loop.arm(pendingTimer, after: TimeSpan(nanoseconds: 1))
                return
            }
            swap(&receivers, &served)
            for transfer in served {
                guard let multi, let pending = transfer.pendingSocket else { continue }
                var running: Int32 = 0
                inside += 1
                curl_multi_socket_action(multi, pending, CURL_CSELECT_IN, &running)
                inside -= 1
                reap()
            }
            served.removeAll(keepingCapacity: true)
        }
    }

    /// Bytes of a response have come.
    @inline(__always)
    func took(_ count: Int) {
        if loop.now != takenAt {
            takenAt = loop.now
            taken = 0
        }
        taken += count
    }

    /// Whether enough has been received in this turn of the loop: others wait.
    private var isTurnOver: Bool { taken > 1 << 20 && loop.now == takenAt }

    /// OpenSSL has taken a record of a transfer's connection, and may hold more.
    func mayHavePending(_ transfer: Transfer) {
        if receivers.last !== transfer { receivers.append(transfer) }
    }

    private func reap() {
        guard inside == 0, let multi else { return }
        var result = CURLE_OK
        while let easy = pinproxy_multi_next_finished(multi, &result) {
            Unmanaged<Transfer>.fromOpaque(pinproxy_easy_owner(easy)).takeUnretainedValue().finished(result)
        }
    }

    private func plan(_ milliseconds: Int) {
        if milliseconds < 0 || isClosing {
            loop.disarm(timer)
        } else if milliseconds == 0, isTurnOver {
            // libcurl has more to read from an origin that is fast.
            loop.arm(timer, after: TimeSpan(nanoseconds: 1))
        } else if milliseconds == 0 {
            guard !kickPlanned else { return }
            kickPlanned = true
            loop.atEndOfTurn { [self] in
                kickPlanned = false
                act(on: CURL_SOCKET_BAD, 0)
            }
        } else {
            loop.arm(timer, after: .milliseconds(milliseconds))
        }
    }

    private func watch(_ descriptor: Int32, _ what: Int32) {
        if what == CURL_POLL_REMOVE {
            guard let socket = socket(descriptor) else { return }
            socket.wantNothing()
            if !socket.isOwn { sockets[Int(descriptor)] = nil }
            return
        }
        let socket = socket(descriptor) ?? remember(CurlSocket(descriptor: descriptor, isOwn: false, pool: self))
        switch what {
        case CURL_POLL_IN: socket.want(.readable)
        case CURL_POLL_OUT: socket.want(.writable)
        case CURL_POLL_INOUT: socket.want([.readable, .writable])
        default: socket.wantNothing()
        }
    }

    // MARK: Sockets

    private func socket(_ descriptor: Int32) -> CurlSocket? {
        descriptor >= 0 && Int(descriptor) < sockets.count ? sockets[Int(descriptor)] : nil
    }

    private func remember(_ socket: CurlSocket) -> CurlSocket {
        while sockets.count <= Int(socket.descriptor) { sockets.append(nil) }
        sockets[Int(socket.descriptor)] = socket
        return socket
    }

    /// A socket for a connection of libcurl's; the negative error code when the system has none, or has one of the reserve.
    func open(family: Int32) -> Int32 {
        let descriptor = pinproxy_stream_socket(family)
        guard descriptor >= 0 else { return descriptor }
        guard !DescriptorReserve.holds(descriptor) else {
            Glibc.close(descriptor)
            return -EMFILE
        }
        _ = remember(CurlSocket(descriptor: descriptor, isOwn: true, pool: self))
        return descriptor
    }

    /// Lets go of the events of a socket, which libcurl goes on to have.
    ///
    /// - Returns: false when libcurl does not have it.
    func leaveEvents(of descriptor: Int32) -> Bool {
        guard let socket = socket(descriptor), socket.isOwn else { return false }
        socket.unregister()
        return true
    }

    /// Whether libcurl still has a socket that it opened.
    func isOpen(_ descriptor: Int32) -> Bool { socket(descriptor)?.isOwn ?? false }

    /// Something came on a connection while it carried no request: its end, or an answer that nobody asked for.
    func spokeWhileIdle(_ descriptor: Int32) {
        if let port = boundAddress(descriptor)?.port { spokenPorts.append(port) }
    }

    /// Whether that was so of the connection with this port at our end.
    func hasSpokenWhileIdle(localPort: UInt16) -> Bool { !spokenPorts.isEmpty && spokenPorts.contains(localPort) }

    /// Remembers the port, at our end, of a connection without TLS.
    func note(_ descriptor: Int32, localPort: UInt16) { plainConnections.append((localPort, descriptor)) }

    /// The connection without TLS that has this port at our end; -1 when it is not known, or when two have it, to
    /// different origins.
    func descriptor(localPort: UInt16) -> Int32 {
        var found: Int32 = -1
        for connection in plainConnections where connection.localPort == localPort {
            guard found < 0 else { return -1 }
            found = connection.descriptor
        }
        return found
    }

    /// Whether there is nothing to be read from an idle connection's socket, not even its end; false when it is not
    /// known which that is.
    func isSilent(_ descriptor: Int32) -> Bool {
        guard isOpen(descriptor) else { return false }
        var byte: UInt8 = 0
        return recv(descriptor, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) < 0
            && (errno == EAGAIN || errno == EWOULDBLOCK)
    }

    func closeSocket(_ descriptor: Int32) {
        if let socket = socket(descriptor) {
            if !spokenPorts.isEmpty, let port = boundAddress(descriptor)?.port {
                spokenPorts.removeAll { $0 == port }
            }
            if let index = plainConnections.firstIndex(where: { $0.descriptor == descriptor }) {
                plainConnections.remove(at: index)
            }
            socket.unregister()
            sockets[Int(descriptor)] = nil
        }
        closedSockets += 1
        Glibc.close(descriptor)
    }
}
