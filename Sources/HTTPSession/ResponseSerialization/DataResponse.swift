public import HTTPCore
public import SessionCore

/// A complete response.
public struct DataResponse: Sendable {
    /// Status, version and fields.
    public let response: ResponseHead
    /// The body, without any transfer coding.
    public let data: [UInt8]
    /// The trailer section (RFC 9110, section 6.5); empty for most responses.
    public let trailers: HTTPFields
    /// The metrics of the task, redirects included.
    public let metrics: TaskMetrics
}
