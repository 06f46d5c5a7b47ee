// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

/// Chooses the destination of a complete download.
///
/// Called on a thread that may wait for the disk. It returns a path, absolute or relative to the process's working
/// directory.
public typealias DownloadDestination =
    @Sendable (_ temporaryPath: String, _ response: ReceivedResponse) -> (path: String, options: DownloadOptions)

/// A response without its body; members of the head (`status`, `fields`) are members of this.
@dynamicMemberLookup
public struct ReceivedResponse: Sendable {
    /// Status, version and fields.
    public let head: ResponseHead
    /// The URL of the request that got this response, the last one after redirects.
    public let url: String

    /// A response from its parts.
    public init(head: ResponseHead, url: String) {
        self.head = head
        self.url = url
    }

    /// A name for a file with this body: that of `Content-Disposition`, otherwise the last part of the URL's path; nil
    /// without either. It has no folders and no leading dots.
    public var suggestedFilename: String? { SuggestedFilename.of(head.fields, url: url) }

    /// A member of the head.
    public subscript<Value>(dynamicMember member: KeyPath<ResponseHead, Value>) -> Value { head[keyPath: member] }
}

/// How a download is moved to its destination.
public struct DownloadOptions: OptionSet, Sendable {
    /// One bit an option.
    public let rawValue: Int

    /// Options from their bits; unknown bits have no effect.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// Missing folders of the path are made.
    public static let createIntermediateDirectories = DownloadOptions(rawValue: 1)
    /// An existing file is replaced, in one step. Without this option the download fails and the file stays.
    public static let removePreviousFile = DownloadOptions(rawValue: 2)
}

/// The result of a download; members of the head (`status`, `fields`) are members of this.
@dynamicMemberLookup
public struct DownloadResponse: Sendable {
    /// Status, version and fields.
    public let response: ResponseHead
    /// The URL of the request that got this response, the last one after redirects.
    public let url: String
    /// The path of the file: its destination, or without one its place in the session's temporary folder, from which
    /// the session does not remove it.
    public let path: String
    /// How long each phase took, and over which connection.
    public let metrics: TaskMetrics

    /// A member of the head.
    public subscript<Value>(dynamicMember member: KeyPath<ResponseHead, Value>) -> Value { response[keyPath: member] }

    /// As `DataResponse.suggestedFilename`.
    public var suggestedFilename: String? { SuggestedFilename.of(response.fields, url: url) }
}
