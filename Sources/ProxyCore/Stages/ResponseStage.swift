// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// A stage on the way of a response to the client. A base class.
///
/// The stage before it calls the methods in this order: the head, the pieces of the body, the trailers, and once
/// `receiveEnd`, which may come first with an error. A stage that has paused the response resumes it with
/// `OriginStage.resumeReceiving`. A stage that keeps the body of the request is asked for it, too.
class ResponseStage {
    /// Receives a 1xx head, before the final one.
    func receiveInformational(_ head: borrowing ResponseHead) { preconditionFailure("a subclass overrides this") }

    /// Receives a final head.
    ///
    /// - Returns: whether the body is wanted.
    func receiveHead(_ head: borrowing ResponseHead) -> ResponseDisposition {
        preconditionFailure("a subclass overrides this")
    }

    /// Receives a piece of the body, which is valid only during the call.
    func receiveBody(_ data: borrowing Span<UInt8>) -> BodyFlow { preconditionFailure("a subclass overrides this") }

    /// Receives a piece of the body, and the next one if it can take both at once.
    ///
    /// - Returns: how many bytes it has taken: those of the first piece, or of both.
    func receiveBody(
        _ data: borrowing Span<UInt8>,
        followedBy more: borrowing Span<UInt8>
    ) -> (taken: Int, flow: BodyFlow) {
        (data.count, receiveBody(data))
    }

    /// Receives a part of a stored body in its file.
    ///
    /// - Returns: how many bytes it has taken, of which there are none only with a pause; nil for a stage that needs the bytes.
    func receive(_ file: FileBytes) -> (taken: Int, flow: BodyFlow)? { nil }

    /// The largest piece of a stored body that is wanted now.
    var pieceSize: Int { .max }

    /// Receives the trailer section.
    func receiveTrailers(_ trailers: borrowing HeaderFields) { preconditionFailure("a subclass overrides this") }

    /// The response is complete, or has failed.
    func receiveEnd(_ error: SessionError?) { preconditionFailure("a subclass overrides this") }

    // MARK: The request body

    /// Gives a new task what is here of the body, and the end of it.
    ///
    /// - Returns: false where this stage keeps none of it.
    func sendKeptBody(to task: LoopTask) -> Bool { false }

    /// The origin has room for more of the body.
    ///
    /// - Returns: false where it comes from the client.
    func continueReplay() -> Bool { false }
}
