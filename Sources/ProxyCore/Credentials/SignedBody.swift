// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// The body of a request whose signature holds the digest of it: it has to be here as a whole before the request is sent.
struct SignedBody {
    /// A longer body cannot be signed, unless the client says its digest.
    static let limit = 1 << 20

    /// SHA-256 of the whole body; nil before its end.
    private(set) var digest: [UInt8]?
    /// The bytes that have come.
    private(set) var count = 0
    /// The bytes that the process is known to hold for it, until the request is over: all of them where their number is known.
    private(set) var held = 0
    private var running: ContentDigest?
    /// The step that follows.
    private var then: (() -> Void)?

    /// Whether the body is being waited for.
    var isGathering: Bool { running != nil }

    /// - Parameters:
    ///   - framing: of which a known length is at most `limit`.
    ///   - then: the step that follows the end of the body.
    /// - Returns: how many bytes more are held.
    mutating func begin(_ framing: BodyFraming, _ then: @escaping () -> Void) -> Int {
        precondition(held == 0, "a former body is still counted")
        self = SignedBody()
        running = ContentDigest()
        self.then = then
        if case .length(let length) = framing { held = length }
        return held
    }

    /// The body is not the one that is sent next. Its bytes are still here.
    mutating func forgetDigest() { digest = nil }

    /// The next bytes.
    ///
    /// - Returns: how many bytes more are held; nil: the body is too long.
    mutating func add(_ bytes: borrowing Span<UInt8>) -> Int? {
        running?.update(bytes)
        count += bytes.count
        guard count <= Self.limit else { return nil }
        let more = max(0, count - held)
        held += more
        return more
    }

    /// The body is whole.
    ///
    /// - Returns: the step that follows; nil where none was waited for.
    mutating func end() -> (() -> Void)? {
        guard let running = running.take() else { return nil }
        digest = running.finishedBytes()
        return then.take()
    }

    static var tooLong: Problem {
        Problem(
            .requestTooLarge,
            "The request is signed with its body, which is longer than 1 MB. Let the client send X-Amz-Content-SHA256."
        )
    }
}
