// SPDX-License-Identifier: Apache-2.0
public import Foundation
public import HTTPSessionCore
public import SessionCore

// Calls that take a path take a file URL, too.

extension URL {
    /// The path of a file URL, decoded.
    ///
    /// - Throws: `requestInvalid` for any other URL, so that no `https` URL becomes the name of a local file.
    fileprivate func filePath() throws(SessionError) -> String {
        guard isFileURL else {
            throw SessionError(
                .requestInvalid,
                "\(scheme.map { "A URL of \($0)" } ?? "A URL without scheme") names no file."
            )
        }
        return path
    }
}

extension BodySource {
    /// The bytes of a regular file, as `file(_:)` for its path.
    ///
    /// - Throws: `requestInvalid` for a URL that is no file URL, and for a file that is missing, unreadable or not regular.
    public static func file(_ url: URL) throws(SessionError) -> BodySource { try file(url.filePath()) }
}

extension MultipartFormData {
    /// A part with the bytes of a file, as `appendFile(_:name:fileName:mimeType:)` for its path.
    ///
    /// - Throws: `requestInvalid` for a URL that is no file URL, and as for the path.
    public mutating func appendFile(
        _ url: URL,
        name: String,
        fileName: String? = nil,
        mimeType: String? = nil
    ) throws(SessionError) {
        try appendFile(url.filePath(), name: name, fileName: fileName, mimeType: mimeType)
    }
}

extension URLSessionManager {
    /// A task that sends a file.
    ///
    /// - Throws: `requestInvalid` for a URL that is no file URL, and when the file cannot be read.
    public func uploadTask(with request: HTTPSessionRequest, fromFile url: URL) throws(SessionError) -> UploadTask {
        try uploadTask(with: request, fromFile: url.filePath())
    }
}

extension DownloadRequest {
    /// A destination in the folder of a file URL, as `suggestedDownloadDestination(in:options:)` for its path.
    ///
    /// - Throws: `requestInvalid` for a URL that is no file URL.
    public static func suggestedDownloadDestination(
        in folder: URL,
        options: DownloadOptions = []
    ) throws(SessionError) -> DownloadDestination {
        suggestedDownloadDestination(in: try folder.filePath(), options: options)
    }

    /// The one file of a file URL as the destination.
    ///
    /// - Throws: `requestInvalid` for a URL that is no file URL.
    public static func downloadDestination(
        _ file: URL,
        options: DownloadOptions = []
    ) throws(SessionError) -> DownloadDestination {
        let path = try file.filePath()
        return { _, _ in (path, options) }
    }
}

extension DownloadResponse {
    /// The downloaded file as a file URL.
    public var fileURL: URL { URL(fileURLWithPath: path) }
}

extension CookieStorage {
    /// A storage that keeps its cookies in the file of a file URL, as `init(file:limit:limitPerDomain:)` for its path.
    ///
    /// - Throws: `requestInvalid` for a URL that is no file URL, and as for the path.
    public convenience init(file url: URL, limit: Int = 3000, limitPerDomain: Int = 180) throws(SessionError) {
        try self.init(file: url.filePath(), limit: limit, limitPerDomain: limitPerDomain)
    }
}
