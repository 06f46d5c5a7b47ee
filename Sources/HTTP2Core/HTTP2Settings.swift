/// What one end of a connection tells the other in its first SETTINGS frame, and how much it takes before it gives
/// credit for more.
package struct HTTP2Settings: Sendable {
    /// How many streams the peer may have open at a time.
    package var concurrentStreams: UInt32
    /// Bytes of one stream's body that may be on their way to us.
    package var streamWindow: Int32
    /// The same for all streams together: what a connection can make us hold.
    package var connectionWindow: Int32
    /// The size of a head as section 6.5.2 of RFC 9113 counts it.
    package var headerListBytes: UInt32

    package init(
        concurrentStreams: UInt32 = 100,
        streamWindow: Int32 = 128 << 10,
        connectionWindow: Int32 = 2 << 20,
        headerListBytes: UInt32 = 64 << 10
    ) {
        self.concurrentStreams = concurrentStreams
        self.streamWindow = streamWindow
        self.connectionWindow = connectionWindow
        self.headerListBytes = headerListBytes
    }
}
