import Glibc
import IOCore
import ServerTrust

/// TLS on a client's connection: a session, and what its ciphertext travels on, which is the socket or, where a client
/// speaks TLS to an origin within TLS to this proxy, another session.
final class TLSLayer {
    let session: TLSServerSession
    let below: TLSLayer?
    /// The kernel may have bytes for the session at the bottom.
    private var isReadable = true
    private var peerHasEnded = false
    /// What ended the session before its time.
    private(set) var fault: OpenSSLError?

    init(_ session: TLSServerSession, over below: TLSLayer?) {
        self.session = session
        self.below = below
    }

    /// More waiting ciphertext than this, and no more is made: what waits besides is the user's to bound.
    private static let outgoingLimit = 64 << 10
    /// What is read from the socket at a time: two of the largest records.
    private static let readSize = 34 << 10

    /// Decrypts up to `limit` bytes to the end of `buffer`.
    ///
    /// - Returns: `.end` only when the client has said so itself; a connection that ends without that has failed.
    func read(into buffer: inout ByteBuffer, upTo limit: Int, from socket: borrowing StreamSocket) -> TransferCount {
        while true {
            switch session.read(into: &buffer, upTo: limit) {
            case .bytes(let count): return .bytes(count)
            case .closed: return .end
            case .truncated: return fail(nil, socket)
            case .failed(let fault): return fail(fault, socket)
            case .needsInput:
                if !session.outgoing.isEmpty { _ = drain(to: socket) }
                switch fill(from: socket) {
                case .bytes: continue
                case .wouldBlock: return .wouldBlock
                case .end: session.incomingHasEnded = true
                case .failed(let failure): return .failed(failure)
                }
            }
        }
    }

    /// Goes on with the handshake.
    ///
    /// - Returns: `.bytes` when it is complete.
    func shakeHands(over socket: borrowing StreamSocket) -> TransferCount {
        while true {
            let progress = session.handshake()
            if case .failed(let failure) = drain(to: socket) { return .failed(failure) }
            switch progress {
            case .bytes: return .bytes(0)
            case .closed, .truncated: return fail(nil, socket)
            case .failed(let fault): return fail(fault, socket)
            case .needsInput:
                switch fill(from: socket) {
                case .bytes: continue
                case .wouldBlock: return .wouldBlock
                case .end: session.incomingHasEnded = true
                case .failed(let failure): return .failed(failure)
                }
            }
        }
    }

    /// Takes what has come for this session.
    private func fill(from socket: borrowing StreamSocket) -> TransferCount {
        if let below { return below.read(into: &session.incoming, upTo: Self.readSize, from: socket) }
        guard isReadable else { return .wouldBlock }
        let outcome = socket.read(into: &session.incoming, upTo: Self.readSize)
        // A short read has emptied the kernel's buffer; only the end can still be there.
        if case .bytes(let count) = outcome, count < Self.readSize, !peerHasEnded { isReadable = false }
        return outcome
    }

    /// The socket may have more, and perhaps its end.
    func noteReadable(peerHasEnded: Bool) {
        if let below { return below.noteReadable(peerHasEnded: peerHasEnded) }
        isReadable = true
        if peerHasEnded { self.peerHasEnded = true }
    }

    private func fail(_ fault: OpenSSLError?, _ socket: borrowing StreamSocket) -> TransferCount {
        self.fault = fault
        // The alert, if there is one.
        _ = drain(to: socket)
        return .failed(IOFailure(code: ECONNABORTED, during: "TLS"))
    }

    /// Encrypts from the front of `buffer` what the socket takes, and little more.
    ///
    /// - Returns: `.wouldBlock` as long as something made before still waits, even if all of `buffer` was taken.
    func write(from buffer: inout ByteBuffer, to socket: borrowing StreamSocket) -> TransferCount {
        var written = 0
        while true {
            switch session.write(from: &buffer, upTo: Self.outgoingLimit) {
            case .bytes(let count): written += count
            case .failed(let fault): return fail(fault, socket)
            case .needsInput, .closed, .truncated: return fail(nil, socket)
            }
            switch drain(to: socket) {
            case .bytes: if buffer.isEmpty { return .bytes(written) }
            // What of the buffer has not gone is tried again and finds no room: so the progress is seen.
            case .wouldBlock, .end: return written > 0 && !buffer.isEmpty ? .bytes(written) : .wouldBlock
            case .failed(let failure): return .failed(failure)
            }
        }
    }

    /// Has what is encrypted go on its way.
    ///
    /// - Returns: `.bytes` when nothing of it waits any more.
    func drain(to socket: borrowing StreamSocket) -> TransferCount {
        if let below {
            if session.outgoing.isEmpty { return below.drain(to: socket) }
            let outcome = below.write(from: &session.outgoing, to: socket)
            if case .bytes = outcome, !session.outgoing.isEmpty { return .wouldBlock }
            return outcome
        }
        while !session.outgoing.isEmpty {
            switch socket.write(from: &session.outgoing) {
            case .bytes: continue
            case .wouldBlock, .end: return .wouldBlock
            case .failed(let failure): return .failed(failure)
            }
        }
        return .bytes(0)
    }

    /// Says on every level that nothing more follows.
    func end(to socket: borrowing StreamSocket) -> TransferCount {
        session.sendCloseNotify()
        let outcome = drain(to: socket)
        guard let below else { return outcome }
        return below.end(to: socket)
    }

    /// Whether bytes wait that the client has not been given.
    var isHoldingBack: Bool { !session.outgoing.isEmpty || below?.isHoldingBack ?? false }
}
