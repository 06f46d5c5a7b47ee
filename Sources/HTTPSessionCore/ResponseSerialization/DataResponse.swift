// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

/// A complete response; members of the head (`status`, `fields`) are members of this.
@dynamicMemberLookup
public struct DataResponse: Sendable {
    /// Status, version and fields.
    public let response: ResponseHead
    /// The URL of the request that got this response: the last one after redirects. It has the fragment of the original
    /// URL, unless a redirect has another.
    public let url: String
    /// The body, without any transfer coding.
    public let data: [UInt8]
    /// The trailer section (RFC 9110, section 6.5); empty for most responses.
    public let trailers: HeaderFields
    /// The metrics of the task, redirects included.
    public let metrics: TaskMetrics

    /// The decoder that the manager that serializes it was given; nil for none.
    package var decoder: (any DataDecoder)?

    /// A response as a session makes it, for tests of serializers.
    ///
    /// - Parameters:
    ///   - response: status, version and fields.
    ///   - url: of the request.
    ///   - data: the body.
    ///   - trailers: the trailer section.
    ///   - metrics: of the task.
    public init(
        response: ResponseHead,
        url: String = "",
        data: [UInt8] = [],
        trailers: HeaderFields = HeaderFields(),
        metrics: TaskMetrics = TaskMetrics()
    ) {
        self.response = response
        self.url = url
        self.data = data
        self.trailers = trailers
        self.metrics = metrics
    }

    /// A member of the head.
    public subscript<Value>(dynamicMember member: KeyPath<ResponseHead, Value>) -> Value { response[keyPath: member] }

    /// A name for a file with this body: that of `Content-Disposition`, otherwise the last part of the URL's path; nil
    /// without either. It has no folders and no leading dots.
    public var suggestedFilename: String? { SuggestedFilename.of(response.fields, url: url) }
}
