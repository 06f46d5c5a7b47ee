// SPDX-License-Identifier: Apache-2.0
import CLibcurl
import CShims
import Glibc
import IOCore

/// Makes a session's connections with libcurl, each to one address: TCP, and ways through SOCKS proxies. Nothing of TLS or of HTTP
/// passes through libcurl, and it looks up no name.
///
/// The multi handle is driven by `curl_multi_socket_action` (libcurl-multi(3)): libcurl names the descriptors and the timer
/// that it waits for, and the loop reports them. Belongs to the loop's thread.
final class Dialler {
    let loop: EventLoop
    let names: NameResolver
    var failedAddresses = FailedAddresses()
    private var multi: UnsafeMutableRawPointer?
    private var dials: [ObjectIdentifier: AddressDial] = [:]
    /// By descriptor.
    private var sockets: [DialSocket?] = []
    private var timer: LoopTimer!
    private var isKickPlanned = false
    /// The number of calls of libcurl on the stack: handles may not be added or removed meanwhile.
    private var depth = 0
    /// The descriptor of the dial that has just succeeded: libcurl closes it with the handle, and it stays open.
    private var adopted: Int32 = -1
    private var isClosing = false

    private static let isLibraryReady: Bool = pinproxy_curl_global_init()

    /// - Throws: `internal` when libcurl cannot be set up.
    init(loop: EventLoop, names: NameResolver) throws(SessionError) {
        self.loop = loop
        self.names = names
        guard Self.isLibraryReady else { throw SessionError(.internal, "libcurl could not be set up.") }
        timer = LoopTimer { [unowned self] in act(on: CURL_SOCKET_BAD, 0) }
        multi = pinproxy_multi_create(
            { _, descriptor, what, owner, _ in
                Unmanaged<Dialler>.fromOpaque(owner!).takeUnretainedValue().watch(descriptor, what)
                return 0
            },
            { _, milliseconds, owner in
                Unmanaged<Dialler>.fromOpaque(owner!).takeUnretainedValue().plan(milliseconds)
                return 0
            },
            Unmanaged.passUnretained(self).toOpaque(),
            // Connections leave libcurl when they are made: it keeps none.
            1
        )
        guard multi != nil else { throw SessionError(.internal, "libcurl has no memory for a multi handle.") }
    }

    deinit { close() }

    /// Ends all dials and tells nobody, and libcurl with them.
    func close() {
        guard let closing = multi else { return }
        isClosing = true
        // First, because the withdrawal of a dial could otherwise start the lookup of the next name.
        names.close()
        for dial in dials.values {
            dial.dial = nil
            withdraw(dial)
        }
        multi = nil
        curl_multi_cleanup(closing)
        loop.remove(timer)
        for socket in sockets { socket?.unregister() }
        sockets = []
    }

    /// Has libcurl connect to an address. Its `Dial` is told of the end, from the loop and never from within this call.
    ///
    /// - Returns: false when there is no memory.
    func start(_ dial: AddressDial) -> Bool {
        guard let multi, dial.prepare() else { return false }
        depth += 1
        let result = curl_multi_add_handle(multi, dial.easy)
        depth -= 1
        guard result == CURLM_OK else {
            dial.destroy()
            return false
        }
        dials[ObjectIdentifier(dial)] = dial
        return true
    }

    /// Ends the dial of an address, and tells nobody.
    func cancel(_ dial: AddressDial) {
        dial.dial = nil
        guard depth == 0 else { return loop.atEndOfTurn { [self] in withdraw(dial) } }
        withdraw(dial)
    }

    private func withdraw(_ dial: AddressDial) {
        guard dials.removeValue(forKey: ObjectIdentifier(dial)) != nil, let multi else { return }
        depth += 1
        curl_multi_remove_handle(multi, dial.easy)
        depth -= 1
        dial.destroy()
    }

    // MARK: Events of libcurl

    fileprivate func act(on descriptor: Int32, _ mask: Int32) {
        guard let multi else { return }
        var running: Int32 = 0
        depth += 1
        curl_multi_socket_action(multi, descriptor, mask, &running)
        depth -= 1
        reap()
    }

    private func reap() {
        var result = CURLE_OK
        while depth == 0, let multi, let easy = pinproxy_multi_next_finished(multi, &result) {
            finish(Unmanaged<AddressDial>.fromOpaque(pinproxy_dial_owner(easy)).takeUnretainedValue(), result)
        }
    }

    private func finish(_ dial: AddressDial, _ result: CURLcode) {
        guard let owner = dial.dial.take() else { return withdraw(dial) }
        let descriptor = result == CURLE_OK ? adoptSocket(of: dial) : nil
        let outcome = dial.outcome(result, adopting: descriptor)
        adopted = descriptor ?? -1
        withdraw(dial)
        adopted = -1
        owner.addressDidEnd(dial, outcome)
    }

    /// Takes the socket of a dial that has succeeded out of libcurl's events.
    private func adoptSocket(of dial: AddressDial) -> Int32? {
        guard let easy = dial.easy else { return nil }
        let descriptor = pinproxy_dial_socket(easy)
        guard let socket = socket(descriptor), socket.isOwn else { return nil }
        socket.unregister()
        sockets[Int(descriptor)] = nil
        return descriptor
    }

    private func plan(_ milliseconds: Int) {
        if milliseconds < 0 || isClosing {
            loop.disarm(timer)
        } else if milliseconds == 0 {
            guard !isKickPlanned else { return }
            isKickPlanned = true
            loop.atEndOfTurn { [self] in
                isKickPlanned = false
                act(on: CURL_SOCKET_BAD, 0)
            }
        } else {
            loop.arm(timer, after: .milliseconds(milliseconds))
        }
    }

    private func watch(_ descriptor: Int32, _ what: Int32) {
        if what == CURL_POLL_REMOVE {
            guard let socket = socket(descriptor) else { return }
            socket.unregister()
            if !socket.isOwn { sockets[Int(descriptor)] = nil }
            return
        }
        let socket = socket(descriptor) ?? remember(DialSocket(descriptor: descriptor, isOwn: false, dialler: self))
        switch what {
        case CURL_POLL_IN: socket.want(.readable)
        case CURL_POLL_OUT: socket.want(.writable)
        case CURL_POLL_INOUT: socket.want([.readable, .writable])
        default: socket.unregister()
        }
    }

    // MARK: Sockets

    private func socket(_ descriptor: Int32) -> DialSocket? {
        descriptor >= 0 && Int(descriptor) < sockets.count ? sockets[Int(descriptor)] : nil
    }

    private func remember(_ socket: DialSocket) -> DialSocket {
        while sockets.count <= Int(socket.descriptor) { sockets.append(nil) }
        // The number is free for a new socket, so that the old object's registration is gone from the kernel.
        sockets[Int(socket.descriptor)]?.unregister()
        sockets[Int(socket.descriptor)] = socket
        return socket
    }

    /// Opens a socket for libcurl.
    ///
    /// - Returns: the negative error code when the system has none, or only one of the reserve.
    func open(family: Int32) -> Int32 {
        let descriptor = pinproxy_stream_socket(family)
        guard descriptor >= 0 else { return descriptor }
        guard !DescriptorReserve.holds(descriptor) else {
            Glibc.close(descriptor)
            return -EMFILE
        }
        // A router on the way forgets a quiet connection after minutes, and says nothing. TCP_USER_TIMEOUT would find it sooner, but
        // it ends connections whose peer takes nothing for a while as well.
        pinproxy_keep_alive(descriptor, 30, 5)
        _ = remember(DialSocket(descriptor: descriptor, isOwn: true, dialler: self))
        return descriptor
    }

    func closeSocket(_ descriptor: Int32) {
        guard descriptor != adopted else { return }
        if let socket = socket(descriptor) {
            socket.unregister()
            sockets[Int(descriptor)] = nil
        }
        Glibc.close(descriptor)
    }
}

/// A descriptor that libcurl waits for, on the loop.
///
/// libcurl closes the socket of a dial that is given up without a call of the close callback. Its number may be that of another
/// connection by the time that libcurl comes back to it, so that only this object's own registration is touched.
private final class DialSocket: EventHandler {
    let descriptor: Int32
    /// Opened by `Dialler.open`.
    let isOwn: Bool
    private unowned(unsafe) let dialler: Dialler
    private var isRegistered = false

    init(descriptor: Int32, isOwn: Bool, dialler: Dialler) {
        self.descriptor = descriptor
        self.isOwn = isOwn
        self.dialler = dialler
    }

    func want(_ readiness: Readiness) {
        if isRegistered, dialler.loop.modify(descriptor, readiness, of: self) { return }
        isRegistered = (try? dialler.loop.register(descriptor, readiness, self)) != nil
    }

    func unregister() {
        guard isRegistered else { return }
        isRegistered = false
        dialler.loop.unregister(descriptor, of: self)
    }

    override func ready(_ readiness: Readiness) {
        dialler.loop.noteWork(.dial)
        var mask: Int32 = 0
        if readiness.contains(.readable) || readiness.contains(.peerClosed) { mask |= CURL_CSELECT_IN }
        if readiness.contains(.writable) { mask |= CURL_CSELECT_OUT }
        if readiness.contains(.failed) || readiness.contains(.hungUp) { mask |= CURL_CSELECT_ERR | CURL_CSELECT_IN }
        dialler.act(on: descriptor, mask)
    }
}
