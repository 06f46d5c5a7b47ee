// SPDX-License-Identifier: Apache-2.0
import IOCore

/// What reads and writes on a client's connection: a TLS handshake, HTTP/1.1, HTTP/2, or a relay of bytes that are not HTTP.
///
/// A protocol, because each of these has a base class of its own. Its values are references: two words, and a call through a table.
protocol TransportUser: AnyObject {
    /// There may be input.
    func pump()

    /// Writes the waiting output.
    func flush()

    /// The kernel has room for output again.
    func hasRoomForOutput()

    /// Closes at once.
    func close()

    /// Closes after the current request: a clean stop.
    func drain()

    /// The next request is the first one inside a CONNECT.
    func beginsAnew()

    /// Whether it is a handshake, to which a client may send an alert and reset the connection.
    var isHandshake: Bool { get }

    /// Whether both sides have closed their sending sides, so that bytes may still be read.
    var endsByHalves: Bool { get }

    /// Appends the requests that can be closed when memory is short.
    ///
    /// - Returns: whether it may hold more than its part of the memory.
    func appendIdle(since limit: UInt64, to idle: inout [any MemoryHolder]) -> Bool
}

extension TransportUser {
    func hasRoomForOutput() { flush() }
    func drain() {}
    func beginsAnew() {}
    var isHandshake: Bool { false }
    var endsByHalves: Bool { false }
    func appendIdle(since limit: UInt64, to idle: inout [any MemoryHolder]) -> Bool { false }
}
