public import HTTPCore
public import SessionCore

/// A whole answer.
public struct DataResponse: Sendable {
    /// Status, version and fields.
    public let response: ResponseHead
    /// The body, without any transfer coding.
    public let data: [UInt8]
    /// The trailer section (RFC 9110, section 6.5); empty for most answers.
    public let trailers: HTTPFields
    /// Of all that was done for the answer, redirects included.
    public let metrics: TaskMetrics
}
