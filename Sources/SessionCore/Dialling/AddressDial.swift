// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import IOCore

/// The dial of one address: `TCPDial`, or `SOCKSDial` where a SOCKS proxy is there. A class to inherit from.
class AddressDial: EventHandler {
    enum Outcome {
        /// A connected, non-blocking socket, which belongs to the receiver, and the address at its other end; nil when that is
        /// not known any more.
        case connected(Int32, to: SocketAddress?)
        case failed(DialFailure)
    }

    let address: SocketAddress
    let endpoint: Endpoint
    let loop: EventLoop
    private let startedAt: UInt64
    /// nil when nobody waits for the end any more.
    private var didEnd: ((AddressDial, Outcome) -> Void)?
    private var refusal: DialRefusal?
    private var isDescriptorMissing = false

    /// - Parameter didEnd: called once, from the loop and never from within `start`; not after `stop`.
    init(
        _ address: SocketAddress,
        for endpoint: Endpoint,
        loop: EventLoop,
        didEnd: @escaping (AddressDial, Outcome) -> Void
    ) {
        self.address = address
        self.endpoint = endpoint
        self.loop = loop
        self.didEnd = didEnd
        startedAt = loop.freshNow
    }

    /// Begins.
    ///
    /// - Returns: the failure of a dial that has ended at once; `didEnd` is not called for that.
    func start() -> DialFailure? { preconditionFailure("a dial begins") }

    /// Whether somebody waits for the end.
    final var isAwaited: Bool { didEnd != nil }

    /// Ends the dial, and tells nobody.
    func stop() { didEnd = nil }

    /// Opens the socket, if the rules let this address be dialled, which is the one that the socket is then connected to.
    ///
    /// - Returns: a negative error code when the address is refused, or when the system has no descriptor, or only one of the
    ///   reserve.
    final func open(_ raw: UnsafePointer<sockaddr>, _ length: socklen_t) -> Int32 {
        guard let dialled = SocketAddress(raw, length: length) else { return -EAFNOSUPPORT }
        refusal = endpoint.dialRule?(dialled)
        guard refusal == nil else { return -EACCES }
        let descriptor = pinproxy_stream_socket(Int32(raw.pointee.sa_family))
        guard descriptor >= 0 else {
            // libcurl does not tell the code.
            isDescriptorMissing = DialFailure.isOfDescriptors(-descriptor)
            return descriptor
        }
        guard !DescriptorReserve.holds(descriptor) else {
            close(descriptor)
            isDescriptorMissing = true
            return -EMFILE
        }
        // A router on the way forgets a quiet connection after minutes, and says nothing. TCP_USER_TIMEOUT would find it sooner, but
        // it ends connections whose peer takes nothing for a while as well.
        pinproxy_keep_alive(descriptor, 30, 5)
        return descriptor
    }

    final func finish(_ outcome: Outcome) {
        let tell = didEnd
        didEnd = nil
        tell?(self, outcome)
    }

    /// - Parameter words: for people.
    final func failure(_ cause: DialFailure.Cause, _ words: String) -> DialFailure {
        DialFailure(
            cause: cause,
            details: words,
            endpoint: endpoint,
            refused: refusal.map { (address, $0) },
            isDescriptorMissing: isDescriptorMissing
        )
    }

    /// The failure that a system call has told.
    final func failure(_ code: Int32) -> DialFailure {
        isDescriptorMissing = DialFailure.isOfDescriptors(code)
        let host = address.ipAddress.map { "\($0)" } ?? "\(address)"
        let milliseconds = (loop.freshNow &- startedAt) / 1_000_000
        let reason = String(cString: strerror(code))
        return failure(
            .noConnection,
            "Failed to connect to \(host) port \(address.port) after \(milliseconds) ms: \(reason)"
        )
    }
}
