// SPDX-License-Identifier: Apache-2.0
package import HTTPCaching

/// The way of one response to its receiver, as a value: what becomes of the origin's response, and which bytes of a stored body go next.
///
/// It holds no task, store, timer or receiver: `CacheStage` reports what happens, and does what the value says. What may be stored and
/// reused is `CacheFlow`'s part.
package struct CacheDelivery {
    package enum Phase {
        /// The cache looks up, asks the origin, or has its head: `CacheFlowState` says which.
        case deciding
        /// The origin's response goes on.
        case relaying
        /// The origin's response is dropped, and a step of the cache follows.
        case dropping
        /// A stored response goes on, or one that is being received.
        case serving
        /// The receiver is gone, and the origin's response is received for the store and for others.
        case finishing
        case over
    }

    /// The use of a piece of the origin's body.
    package enum PieceUse: Equatable {
        /// It waits for the cache's decision, and the origin for it, too.
        case hold
        /// For the store and the receiver.
        case relay
        /// For the store alone.
        case store
        case drop
        /// It is not dropped to its end: the origin's task is cancelled.
        case cancel
        /// Nobody takes it.
        case refuse
    }

    /// The end of the origin's task.
    package enum OriginEnd {
        /// Without a response: the cache decides what follows.
        case failure
        /// The receiver's response ends with it.
        case relayed
        /// The receiver still reads.
        case stored
        /// The dropped response is over.
        case followedBy(CacheTransaction.Step)
        /// A background refresh ends here.
        case givenUp
    }

    /// What goes to the receiver next.
    package enum Next: Equatable {
        /// These bytes of the stored body, or fewer.
        case piece(Range<Int>)
        /// Others have their turn before.
        case later
        /// Nothing, until there is room or a piece.
        case nothing
        case end
    }

    package private(set) var phase = Phase.deciding
    /// A refresh, which has no receiver: only what is stored is received.
    package let isBackground: Bool
    private var next: CacheTransaction.Step?

    // The origin's response while it is relayed or received for the store.
    package private(set) var received = 0
    /// The length of its body; nil when it is not known.
    package private(set) var length: Int?
    /// The origin waits for the other requests that read the body.
    package var isHeldByReaders = false
    private var unwanted = UnwantedBody()

    // The receiver, and the stored body for it.
    private var isPaused = false
    /// The receiver's task is suspended.
    package var isHeld = false
    private var unsent = 0..<0
    /// The number of unsent bytes at which others have their turn.
    private var turnEnd = 0
    private var isSending = false
    /// A piece is read from the disk, or awaited.
    private var isAwaitingPiece = false

    private static let pieceSize = 128 << 10
    /// A rest up to this size is one piece for every receiver.
    private static let smallPiece = 1 << 10
    /// The number of bytes after which others have their turn.
    private static let turnSize = 1 << 20

    package init(isBackground: Bool) { self.isBackground = isBackground }

    package var isOver: Bool { phase == .over }

    // MARK: The origin

    /// A request goes to the origin.
    package mutating func ask() {
        phase = .deciding
        received = 0
        unwanted = UnwantedBody()
    }

    /// The final head is here: the cache decides about it.
    ///
    /// - Returns: false when none is expected.
    package mutating func receiveHead(length: Int?) -> Bool {
        guard phase == .deciding else { return false }
        self.length = length
        return true
    }

    /// The cache has decided to relay the response.
    ///
    /// - Returns: whether it has a receiver.
    package mutating func relay(isStoring: Bool) -> Bool {
        phase = isBackground ? .finishing : .relaying
        if isBackground, !isStoring { drop(followedBy: .pass) }
        return !isBackground
    }

    package mutating func drop(followedBy next: CacheTransaction.Step) {
        phase = .dropping
        self.next = next
    }

    package mutating func receive(_ count: Int) -> PieceUse {
        switch phase {
        case .deciding: return .hold
        case .relaying, .serving, .finishing:
            received += count
            return phase == .relaying ? .relay : .store
        case .dropping: return unwanted.didReceive(count) ? .drop : .cancel
        case .over: return .refuse
        }
    }

    /// Whether at most so many bytes are missing.
    package func isNearlyWhole(within limit: Int) -> Bool { length.map { $0 - received <= limit } ?? false }

    /// Whether the rest of the origin's response is received without a receiver: others read it, or it is stored, for a
    /// refresh or because little of it is missing.
    package func isWorthFinishing(_ transaction: CacheTransaction) -> Bool {
        transaction.isReadAlong
            || (transaction.isStoring && (isBackground || isNearlyWhole(within: transaction.cache.completesBelow)))
    }

    /// Whether the origin may send on, as far as receiver and readers let it.
    package var letsOriginSend: Bool { !isHeldByReaders && !(phase == .relaying && isPaused) }

    /// Whether another request follows when the present one has ended.
    package func asksAgain(afterFailure isFailure: Bool) -> Bool {
        guard phase == .dropping, case .forward? = next else { return false }
        return !isFailure || !isBackground
    }

    /// The origin's task is over, and nothing waits for the cache's decision.
    package func originDidEnd(_ error: SessionError?) -> OriginEnd {
        switch phase {
        // A refresh that was given up shows nothing about the server.
        case .deciding: isBackground && error?.code == .cancelled ? .givenUp : .failure
        case .relaying, .finishing: .relayed
        case .serving: .stored
        case .dropping: isBackground && error != nil ? .givenUp : .followedBy(next ?? .pass)
        case .over: .givenUp
        }
    }

    // MARK: The receiver

    /// Whether the origin's response, if it has not ended, is being received for the receiver or the store.
    package var isReceiving: Bool { phase == .relaying || phase == .serving || phase == .finishing }

    /// The receiver is gone, or does not want the response.
    ///
    /// - Parameter finishes: whether the rest of the origin's response is received without it; otherwise all is over.
    package mutating func leave(finishes: Bool) { phase = finishes ? .finishing : .over }

    /// The receiver has no room.
    ///
    /// - Returns: whether it is a stored response that waits for it.
    @discardableResult
    package mutating func pause() -> Bool {
        guard phase == .relaying || phase == .serving else { return false }
        isPaused = true
        return phase == .serving
    }

    /// The receiver has room again.
    ///
    /// - Returns: whether it had none.
    package mutating func resume() -> Bool {
        defer { isPaused = false }
        return isPaused
    }

    /// Whether the relayed response waits for the receiver.
    package var isHeldUp: Bool { phase == .relaying && (isPaused || isHeld) }

    // MARK: A stored body

    /// A stored response goes on.
    ///
    /// - Parameter body: the range of the body to send.
    package mutating func serve(_ body: Range<Int>) {
        phase = .serving
        unsent = body
    }

    /// The receiver of a relayed response reads the rest from the store, at its own pace.
    package mutating func serveRest() { serve(received..<Int.max) }

    /// The rest is not wanted, or there is none.
    package mutating func dropUnsent() { unsent = 0..<0 }

    /// - Returns: false while the response is being sent already, or a piece is awaited.
    package mutating func beginSending() -> Bool {
        guard phase == .serving, !isSending, !isAwaitingPiece else { return false }
        isSending = true
        turnEnd = max(0, unsent.count - Self.turnSize)
        return true
    }

    /// - Parameter wanted: the largest piece that the receiver wants; only a larger rest needs it.
    package mutating func next(wanted: () -> Int) -> Next {
        let maySend = phase == .serving && !isPaused && !isHeld && !isAwaitingPiece
        if maySend, unsent.count > turnEnd {
            var count = unsent.count
            if count > Self.smallPiece { count = max(1, min(Self.pieceSize, wanted(), count)) }
            return .piece(unsent.lowerBound..<unsent.lowerBound + count)
        }
        isSending = false
        guard maySend else { return .nothing }
        if unsent.isEmpty { return .end }
        isAwaitingPiece = true
        return .later
    }

    /// The rest of the stored body that this turn may send: at least one piece, where there is one.
    package var turn: Range<Int> {
        let piece = unsent.lowerBound + min(unsent.count, Self.pieceSize)
        return unsent.lowerBound..<max(piece, unsent.upperBound - turnEnd)
    }

    /// The piece that was awaited has gone; `beginSending` goes on.
    package mutating func endSending() { isSending = false }

    package mutating func didSend(_ count: Int) { unsent = unsent.lowerBound + count..<unsent.upperBound }

    /// The next piece is not here yet.
    package mutating func awaitPiece() { isAwaitingPiece = true }

    /// The piece is here, or could be read now.
    package mutating func endWait() { isAwaitingPiece = false }
}
