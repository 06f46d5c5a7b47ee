public import HTTPCore
public import SessionCore

/// Chooses the destination of a complete download.
///
/// Called on a thread that may wait for the disk. It returns a path, absolute or relative to the process's working
/// directory.
public typealias DownloadDestination =
    @Sendable (_ temporaryPath: String, _ response: ResponseHead) -> (path: String, options: DownloadOptions)

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

/// The result of a download.
public struct DownloadResponse: Sendable {
    /// Status, version and fields.
    public let response: ResponseHead
    /// The path of the file: its destination, or without one its place in the session's temporary folder, from which
    /// the session does not remove it.
    public let path: String
    /// How long each phase took, and over which connection.
    public let metrics: TaskMetrics
}
