// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// Compresses the bodies of requests, with the field `Content-Encoding` (RFC 9110, section 8.4). A server has to know the coding:
/// nothing can be asked beforehand, and one that does not should refuse the request with 415.
///
/// Only bodies that are in memory are compressed; files, forms with files and streams are sent as they are.
///
/// ```swift
/// let manager = try HTTPSessionManager(interceptor: RequestCompressor(.gzip) { $0.count > 1024 })
/// ```
///
/// Compressed secrets beside text that an attacker can choose betray themselves by their length; do not compress such bodies.
public struct RequestCompressor: RequestInterceptor {
    /// A coding of HTTP.
    public enum Coding: String, Sendable {
        /// RFC 1950.
        case deflate
        /// RFC 1952, which more servers know.
        case gzip
    }

    /// The treatment of a request that has the field `Content-Encoding` already.
    public enum DuplicateHeaderBehavior: Sendable {
        /// The request fails with `requestInvalid`.
        case error
        /// The body is compressed, and the field replaced: a body that is coded already has two codings then, of which the field
        /// names one.
        case replace
        /// The request is sent as it is.
        case skip
    }

    /// The coding of the bodies.
    public let coding: Coding
    /// The treatment of requests that have a coding.
    public let duplicateHeaderBehavior: DuplicateHeaderBehavior
    private let shouldCompress: @Sendable ([UInt8]) -> Bool

    /// - Parameters:
    ///   - coding: the coding of the bodies.
    ///   - duplicateHeaderBehavior: the treatment of requests that have a coding.
    ///   - shouldCompress: whether to compress a body; by default every one that is not empty.
    public init(
        _ coding: Coding = .deflate,
        duplicateHeaderBehavior: DuplicateHeaderBehavior = .error,
        shouldCompress: @escaping @Sendable (_ body: [UInt8]) -> Bool = { _ in true }
    ) {
        self.coding = coding
        self.duplicateHeaderBehavior = duplicateHeaderBehavior
        self.shouldCompress = shouldCompress
    }

    /// The request with its body compressed.
    ///
    /// - Throws: `SessionError` with `requestInvalid` for a request with `Content-Encoding`, if it is to be an error.
    public func adapt(_ request: HTTPSessionRequest, for subject: Request) async throws -> HTTPSessionRequest {
        guard case .bytes(let body) = request.body, !body.isEmpty else { return request }
        if request.headers.contains(name: "Content-Encoding") {
            switch duplicateHeaderBehavior {
            case .error:
                throw SessionError(
                    .requestInvalid,
                    "The request has a Content-Encoding already. Choose replace or skip for the RequestCompressor."
                )
            case .skip: return request
            case .replace: break
            }
        }
        guard shouldCompress(body) else { return request }
        guard let compressed = Deflater.compress(body, coding == .gzip ? .gzip : .deflate) else {
            throw SessionError(.internal, "There is no memory to compress the request's body in.")
        }
        var request = request
        request.body = .bytes(compressed)
        request.headers["Content-Encoding"] = coding.rawValue
        return request
    }
}
