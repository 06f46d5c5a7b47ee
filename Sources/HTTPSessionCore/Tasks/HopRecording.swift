// SPDX-License-Identifier: Apache-2.0
package import SessionCore

/// Watches one request of a task and its response, for a record of them.
package struct HopRecording {
    /// Makes a recording of a request. It is called on the session's loop.
    ///
    /// - Parameter delegate: gets all events through `HopRecording.delegate`.
    package typealias Start = @Sendable (_ request: SessionRequest, _ delegate: LoopTaskDelegate) -> HopRecording

    /// The delegate of the hop: it passes all events on.
    package let delegate: LoopTaskDelegate
    /// A piece of the request's body has been given to the hop.
    package let didSend: (_ bytes: borrowing Span<UInt8>) -> Void

    package init(delegate: LoopTaskDelegate, didSend: @escaping (_ bytes: borrowing Span<UInt8>) -> Void) {
        self.delegate = delegate
        self.didSend = didSend
    }
}
