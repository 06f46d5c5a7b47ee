// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import IOCore

/// libcurl's part of a session: the ways through SOCKS proxies, each through one address of its proxy. Nothing of TLS or of HTTP
/// passes through libcurl, and it looks up no name.
///
/// The multi handle is driven by `curl_multi_socket_action` (libcurl-multi(3)): libcurl names the descriptors and the timer
/// that it waits for, and the loop reports them. Belongs to the loop's thread.
final class SOCKSDialler {
    let loop: EventLoop
    /// nil before the first dial, and after the end.
    private var multi: UnsafeMutableRawPointer?
    private var dials: [ObjectIdentifier: SOCKSDial] = [:]
    /// By descriptor.
    private var sockets: [SOCKSSocket?] = []
    private var timer: LoopTimer!
    private var isKickPlanned = false
    /// The number of calls of libcurl on the stack: handles may not be added or removed meanwhile.
    private var depth = 0
    /// The descriptor of the dial that has just succeeded: libcurl closes it with the handle, and it stays open.
    private var adopted: Int32 = -1
    private var isClosing = false

    init(loop: EventLoop) {
        self.loop = loop
        timer = LoopTimer { [unowned self] in act(on: -1, []) }
    }

    private func makeMulti() -> UnsafeMutableRawPointer? {
        pinproxy_socks_multi(
            { _, descriptor, what, owner, _ in
                Unmanaged<SOCKSDialler>.fromOpaque(owner!).takeUnretainedValue().watch(descriptor, what)
                return 0
            },
            { _, milliseconds, owner in
                Unmanaged<SOCKSDialler>.fromOpaque(owner!).takeUnretainedValue().plan(milliseconds)
                return 0
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
    }

    deinit { close() }

    /// Ends all dials and tells nobody, and libcurl with them.
    func close() {
        isClosing = true
        guard let closing = multi else { return }
        for dial in dials.values { withdraw(dial) }
        multi = nil
        pinproxy_socks_multi_free(closing)
        loop.remove(timer)
        for socket in sockets { socket?.unregister() }
        sockets = []
    }

    /// Has libcurl begin, which has to be loaded.
    ///
    /// - Returns: false when there is no memory.
    func start(_ dial: SOCKSDial) -> Bool {
        if multi == nil, !isClosing { multi = makeMulti() }
        guard let multi, dial.prepare() else { return false }
        depth += 1
        let isAdded = pinproxy_socks_add(multi, dial.easy)
        depth -= 1
        guard isAdded else {
            dial.destroy()
            return false
        }
        dials[ObjectIdentifier(dial)] = dial
        return true
    }

    /// Ends a dial.
    func cancel(_ dial: SOCKSDial) {
        guard depth == 0 else { return loop.atEndOfTurn { [self] in withdraw(dial) } }
        withdraw(dial)
    }

    private func withdraw(_ dial: SOCKSDial) {
        guard dials.removeValue(forKey: ObjectIdentifier(dial)) != nil, let multi else { return }
        depth += 1
        pinproxy_socks_remove(multi, dial.easy)
        depth -= 1
        dial.destroy()
    }

    // MARK: Events of libcurl

    /// - Parameter descriptor: -1 when the time is over for which libcurl wanted to wait.
    fileprivate func act(on descriptor: Int32, _ readiness: Readiness) {
        guard let multi else { return }
        depth += 1
        pinproxy_socks_act(multi, descriptor, readiness.rawValue)
        depth -= 1
        reap()
    }

    private func reap() {
        var result: Int32 = 0
        while depth == 0, let multi, let easy = pinproxy_socks_next_finished(multi, &result) {
            finish(Unmanaged<SOCKSDial>.fromOpaque(pinproxy_socks_owner(easy)).takeUnretainedValue(), result)
        }
    }

    private func finish(_ dial: SOCKSDial, _ result: Int32) {
        guard dial.isAwaited else { return withdraw(dial) }
        let descriptor = pinproxy_socks_end_of(result) == PINPROXY_SOCKS_CONNECTED ? adoptSocket(of: dial) : nil
        let outcome = dial.outcome(result, adopting: descriptor)
        adopted = descriptor ?? -1
        withdraw(dial)
        adopted = -1
        dial.finish(outcome)
    }

    /// Takes the socket of a dial that has succeeded out of libcurl's events.
    private func adoptSocket(of dial: SOCKSDial) -> Int32? {
        guard let easy = dial.easy else { return nil }
        let descriptor = pinproxy_socks_descriptor(easy)
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
                act(on: -1, [])
            }
        } else {
            loop.arm(timer, after: .milliseconds(milliseconds))
        }
    }

    private func watch(_ descriptor: Int32, _ what: Int32) {
        let events = pinproxy_socks_events(what)
        guard events >= 0 else {
            guard let socket = socket(descriptor) else { return }
            socket.unregister()
            if !socket.isOwn { sockets[Int(descriptor)] = nil }
            return
        }
        let socket = socket(descriptor) ?? keep(SOCKSSocket(descriptor: descriptor, isOwn: false, dialler: self))
        if events == 0 { socket.unregister() } else { socket.want(Readiness(rawValue: UInt32(events))) }
    }

    // MARK: Sockets

    private func socket(_ descriptor: Int32) -> SOCKSSocket? {
        descriptor >= 0 && Int(descriptor) < sockets.count ? sockets[Int(descriptor)] : nil
    }

    private func keep(_ socket: SOCKSSocket) -> SOCKSSocket {
        while sockets.count <= Int(socket.descriptor) { sockets.append(nil) }
        // The number is free for a new socket, so that the old object's registration is gone from the kernel.
        sockets[Int(socket.descriptor)]?.unregister()
        sockets[Int(socket.descriptor)] = socket
        return socket
    }

    /// A dial has opened a socket for libcurl.
    func remember(_ descriptor: Int32) {
        _ = keep(SOCKSSocket(descriptor: descriptor, isOwn: true, dialler: self))
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
private final class SOCKSSocket: EventHandler {
    let descriptor: Int32
    /// Opened by a dial.
    let isOwn: Bool
    private unowned(unsafe) let dialler: SOCKSDialler
    private var isRegistered = false

    init(descriptor: Int32, isOwn: Bool, dialler: SOCKSDialler) {
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
        dialler.act(on: descriptor, readiness)
    }
}
