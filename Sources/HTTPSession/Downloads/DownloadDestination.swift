public import HTTPCore
public import SessionCore

/// Where a whole download goes.
///
/// Called on a thread that may wait for the disk, when the file is whole. What it gives is an absolute path, or one
/// from the process's working directory.
public typealias DownloadDestination =
    @Sendable (_ temporaryPath: String, _ response: ResponseHead) -> (path: String, options: DownloadOptions)

/// How a download is moved to its destination.
public struct DownloadOptions: OptionSet, Sendable {
    /// One bit an option.
    public let rawValue: Int

    /// Options from their bits; those that mean nothing have no effect.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// Folders on the way that are not there are made.
    public static let createIntermediateDirectories = DownloadOptions(rawValue: 1)
    /// A file that stands there is replaced, in one step. Without this the download fails and the file stays.
    public static let removePreviousFile = DownloadOptions(rawValue: 2)
}

/// A whole download.
public struct DownloadResponse: Sendable {
    /// Status, version and fields.
    public let response: ResponseHead
    /// Where the file is: at its destination, or where there was none in the session's temporary folder, from where
    /// nobody removes it.
    public let path: String
    /// How long each phase took, and over which connection.
    public let metrics: TaskMetrics
}
