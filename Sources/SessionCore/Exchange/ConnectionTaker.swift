// SPDX-License-Identifier: Apache-2.0
/// Takes the connection that a task makes, in place of a request: a stream. A class to inherit from.
class ConnectionTaker: ConnectionUser {
    /// What is offered in the handshake, the best first; nothing when empty.
    final let applicationProtocols: [ApplicationProtocol]

    init(offering applicationProtocols: [ApplicationProtocol]) { self.applicationProtocols = applicationProtocols }

    func didConnect(_ connection: VerifiedConnection) {}

    /// Fills in the bytes of the connection.
    func complete(_ transaction: inout TransactionMetrics) {}

    /// The task ends.
    ///
    /// - Parameter isWhole: both sides have ended.
    func detach(isWhole: Bool) {}
}
