// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore

/// The exchange that a relay was made for. A protocol, since exchanges have a base class; a relay calls it a few times, and once for each
/// piece to count it.
protocol RelayOwner: AnyObject {
    /// The user that the request has authenticated, with the credentials for it.
    var authenticatedUser: (name: [UInt8], credentials: ClientCredentials)? { get }

    /// Writes the response to a CONNECT whose connection is established. The client's connection belongs to the relay from now on.
    func writeConnectionEstablished(_ output: inout ByteBuffer)

    /// Writes the head of a response that switches protocols. The client's connection belongs to the relay from now on.
    func writeProtocolSwitch(_ response: borrowing ResponseHead, _ output: inout ByteBuffer)

    func relayDidReceiveInformational(_ head: borrowing ResponseHead)

    /// The origin responds to an Upgrade like to any other request.
    ///
    /// - Returns: the error that the client gets instead.
    func deliverUnswitched(_ response: borrowing ResponseHead) -> Problem?

    /// A piece of such a response.
    func relayDidReceive(_ data: borrowing Span<UInt8>) -> BodyFlow

    /// The relay's connection has carried a complete ordinary response.
    func relayDidCompleteResponse(trailers: borrowing HeaderFields)

    func countRelayedBytes(fromClient: Int, toClient: Int)

    /// The relay could not be established; the client's connection is still HTTP's.
    func relayDidFail(_ error: SessionError, at endpoint: Endpoint)

    /// The relay was refused by the proxy itself.
    func relayDidRefuse(_ problem: Problem)

    /// The relay is over.
    func relayDidEnd(_ problem: Problem?)
}
