// SPDX-License-Identifier: Apache-2.0
/// The bytes of content that a task has sent and received.
struct ByteCounts: Sendable {
    var sent: Int64 = 0
    var expectedToSend: Int64?
    var received: Int64 = 0
    var expectedToReceive: Int64?
}

/// The progress of a body.
public struct TaskProgress: Sendable, Equatable {
    /// Bytes of the body, without heads and transfer coding.
    public let completedBytes: Int64
    /// The length of the body; nil while it is not known.
    public let totalBytes: Int64?

    /// Progress from two counts of bytes; nil for a total that is not known.
    public init(completedBytes: Int64, totalBytes: Int64?) {
        self.completedBytes = completedBytes
        self.totalBytes = totalBytes
    }

    /// The progress from 0 to 1; nil while the total is not known.
    public var fraction: Double? {
        guard let totalBytes else { return nil }
        return totalBytes > 0 ? min(1, Double(completedBytes) / Double(totalBytes)) : 1
    }
}
