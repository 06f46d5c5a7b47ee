// SPDX-License-Identifier: Apache-2.0
import Glibc
package import IOCore
package import ServerTrust

/// TLS on a client's connection: a session, and the layer that carries its ciphertext. That is the socket or, for a
/// client that uses TLS to an origin within TLS to this proxy, another session.
package final class TLSLayer {
    package let session: TLSServerSession
    let below: TLSLayer?
    /// The kernel may have bytes for the bottom session.
    private var isReadable = true
    private var peerHasEnded = false
    /// The fault that ended the session early.
    private(set) var fault: OpenSSLError?

    package init(_ session: TLSServerSession, over below: TLSLayer? = nil) {
        self.session = session
        self.below = below
    }

    /// No more ciphertext is produced while more than this is waiting; the user limits its own output.
    private static let outgoingLimit = 64 << 10
    /// The size of one read from the socket: two of the largest records.
    private static let readSize = 34 << 10

    /// Decrypts up to `limit` bytes to the end of `buffer`.
    ///
    /// - Returns: `.end` only after close_notify; a connection that ends without it has failed.
    package func read(
        into buffer: inout ByteBuffer,
        upTo limit: Int,
        from socket: borrowing StreamSocket
    ) -> TransferCount {
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

    /// Continues the handshake.
    ///
    /// - Returns: `.bytes` when it is complete.
    func shakeHands(over socket: borrowing StreamSocket) -> TransferCount {
        while true {
            if let outcome = endStep(session.handshake(), over: socket) { return outcome }
        }
    }

    /// Sends the results of a step of the handshake, and reads the client's part of the next one.
    ///
    /// - Returns: nil when the session has input for another step.
    func endStep(_ progress: TLSServerSession.Progress, over socket: borrowing StreamSocket) -> TransferCount? {
        if case .failed(let failure) = drain(to: socket) { return .failed(failure) }
        switch progress {
        case .bytes: return .bytes(0)
        case .closed, .truncated: return fail(nil, socket)
        case .failed(let fault): return fail(fault, socket)
        case .needsInput: return awaitInput(from: socket)
        }
    }

    /// Reads the client's part of the handshake.
    ///
    /// - Returns: nil when the session has input for a step.
    func awaitInput(from socket: borrowing StreamSocket) -> TransferCount? {
        guard session.incoming.isEmpty, !session.incomingHasEnded else { return nil }
        switch fill(from: socket) {
        case .bytes: return nil
        case .wouldBlock: return .wouldBlock
        case .end:
            session.incomingHasEnded = true
            return nil
        case .failed(let failure): return .failed(failure)
        }
    }

    /// Reads ciphertext for this session.
    private func fill(from socket: borrowing StreamSocket) -> TransferCount {
        if let below { return below.read(into: &session.incoming, upTo: Self.readSize, from: socket) }
        guard isReadable else { return .wouldBlock }
        let outcome = socket.read(into: &session.incoming, upTo: Self.readSize)
        // A short read has emptied the kernel's buffer; only the end can still be there.
        if case .bytes(let count) = outcome, count < Self.readSize, !peerHasEnded { isReadable = false }
        return outcome
    }

    /// The socket may have more bytes, and perhaps its end.
    package func noteReadable(peerHasEnded: Bool) {
        if let below { return below.noteReadable(peerHasEnded: peerHasEnded) }
        isReadable = true
        if peerHasEnded { self.peerHasEnded = true }
    }

    private func fail(_ fault: OpenSSLError?, _ socket: borrowing StreamSocket) -> TransferCount {
        self.fault = fault
        // Sends the alert, if there is one.
        _ = drain(to: socket)
        return .failed(IOFailure(code: ECONNABORTED, during: "TLS"))
    }

    /// Encrypts as much from the front of `buffer` as the socket takes, and little more.
    ///
    /// - Returns: `.wouldBlock` while earlier ciphertext is waiting, even if all of `buffer` was encrypted.
    package func write(from buffer: inout ByteBuffer, to socket: borrowing StreamSocket) -> TransferCount {
        var written = 0
        while true {
            switch session.write(from: &buffer, upTo: Self.outgoingLimit) {
            case .bytes(let count): written += count
            case .failed(let fault): return fail(fault, socket)
            case .needsInput, .closed, .truncated: return fail(nil, socket)
            }
            switch drain(to: socket) {
            case .bytes: if buffer.isEmpty { return .bytes(written) }
            // The rest of the buffer is tried again and finds no room, so the caller sees the progress.
            case .wouldBlock, .end: return written > 0 && !buffer.isEmpty ? .bytes(written) : .wouldBlock
            case .failed(let failure): return .failed(failure)
            }
        }
    }

    /// Writes ciphertext to the layer below.
    ///
    /// - Returns: `.bytes` when none is waiting any more.
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

    /// Ends every layer's sending side.
    package func end(to socket: borrowing StreamSocket) -> TransferCount {
        session.sendCloseNotify()
        let outcome = drain(to: socket)
        guard let below else { return outcome }
        return below.end(to: socket)
    }

    /// Whether ciphertext is waiting that the client has not received.
    var isHoldingBack: Bool { !session.outgoing.isEmpty || below?.isHoldingBack ?? false }
}
