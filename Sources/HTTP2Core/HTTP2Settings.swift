// SPDX-License-Identifier: Apache-2.0
/// The values of an endpoint's first SETTINGS frame, and its receive windows.
package struct HTTP2Settings: Sendable {
    /// The limit of the peer's concurrent streams.
    package var concurrentStreams: UInt32
    /// The receive window of a stream, in bytes.
    package var streamWindow: Int32
    /// The receive window of the connection, which limits the memory for all of its streams.
    package var connectionWindow: Int32
    /// The limit for the size of a head, by RFC 9113, section 6.5.2.
    package var headerListBytes: UInt32
    /// Whether a server takes CONNECT with `:protocol` (SETTINGS_ENABLE_CONNECT_PROTOCOL; RFC 8441, section 3).
    package var allowsExtendedConnect: Bool

    package init(
        concurrentStreams: UInt32 = 100,
        streamWindow: Int32 = 128 << 10,
        connectionWindow: Int32 = 2 << 20,
        headerListBytes: UInt32 = 64 << 10,
        allowsExtendedConnect: Bool = false
    ) {
        self.concurrentStreams = concurrentStreams
        self.streamWindow = streamWindow
        self.connectionWindow = connectionWindow
        self.headerListBytes = headerListBytes
        self.allowsExtendedConnect = allowsExtendedConnect
    }
}
