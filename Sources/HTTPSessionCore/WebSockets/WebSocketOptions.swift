// SPDX-License-Identifier: Apache-2.0
import WebSocketCore

/// The settings of a WebSocket.
public struct WebSocketOptions: Sendable, Hashable {
    /// The longest message that is received, in bytes of its content: a longer one fails with `responseTooLarge`, and the peer is told
    /// 1009. 1 MiB by default.
    public var maximumMessageSize = 1 << 20
    /// How messages are compressed where the server agrees; nil, the default, for none.
    public var compression: WebSocketCompression?
    /// How long the peer may take to reply to a Close frame, and then to end the connection. Ten seconds by default.
    public var closeTimeout: Duration = .seconds(10)

    /// The defaults of each property.
    public init() {}
}

/// The offer of permessage-deflate (RFC 7692).
///
/// The length of compressed text can give its content away: compress no message that has a secret beside text that others choose,
/// nor two such messages of one connection that keeps its context.
public struct WebSocketCompression: Sendable, Hashable {
    /// Whether this side compresses a message with regard to those before it. Without it more is sent, and less memory is needed.
    public var clientContextTakeover = true
    /// Whether the server may do so; otherwise it has to agree not to.
    public var serverContextTakeover = true
    /// The base-2 logarithm of this side's largest window, from 8 to 15 (256 bytes to 32 KB); the server may ask for a smaller one.
    public var clientMaxWindowBits = 15
    /// The same of the server's, to which it has to agree; nil: it decides.
    public var serverMaxWindowBits: Int?
    /// Shorter messages are sent without compression, in bytes.
    public var minimumSize = 64

    /// Offers all that the extension has: contexts, and windows of 32 KB.
    public init() {}

    var offer: PermessageDeflateOffer {
        PermessageDeflateOffer(
            clientNoContextTakeover: !clientContextTakeover,
            serverNoContextTakeover: !serverContextTakeover,
            clientMaxWindowBits: min(max(clientMaxWindowBits, 8), 15),
            serverMaxWindowBits: serverMaxWindowBits.map { min(max($0, 8), 15) }
        )
    }
}
