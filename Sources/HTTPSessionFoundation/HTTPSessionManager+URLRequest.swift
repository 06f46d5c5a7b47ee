// SPDX-License-Identifier: Apache-2.0
public import Foundation
import HTTPCore
public import HTTPSessionCore
public import SessionCore

#if canImport(FoundationNetworking)
public import FoundationNetworking
#endif

extension HTTPSessionManager {
    /// Carries out a `URLRequest` as `URLSession.data(for:)` does, with this session's server trust.
    ///
    /// It uses URL, method, header fields, `httpBody` or `httpBodyStream`, `cachePolicy`, `httpShouldHandleCookies` and `timeoutInterval`: a
    /// request's own, other than Foundation's 60 seconds, is the longest wait for the connection, for the response and
    /// for each of its bytes, instead of the session's limits. `useProtocolCachePolicy` leaves the cache policy to the
    /// session. `Content-Length` is made from `httpBody`. The URL of the `HTTPURLResponse` is the last one after redirects.
    ///
    /// - Throws: `SessionError`; `urlError` converts it to Foundation's. `requestInvalid` for a URL that is no http or
    ///   https and for fields that the session makes itself.
    public func data(for request: URLRequest) async throws(SessionError) -> (Data, HTTPURLResponse) {
        let response = try await response(for: request)
        guard let url = URL(string: response.url) else {
            throw SessionError(.internal, "Foundation does not take the URL \(response.url).")
        }
        return (Data(response.data), try HTTPURLResponse.make(response.response, url: url))
    }

    /// GET.
    public func data(from url: URL) async throws(SessionError) -> (Data, HTTPURLResponse) {
        try await data(for: URLRequest(url: url))
    }

    private func response(for request: URLRequest) async throws(SessionError) -> DataResponse {
        guard let url = request.url else { throw SessionError(.requestInvalid, "The request has no URL.") }
        guard let method = HTTPMethod(request.httpMethod ?? "GET") else {
            throw SessionError(.requestInvalid, "The request's method is no token.")
        }
        var headers = HTTPHeaders(request.allHTTPHeaderFields ?? [:])
        headers["Content-Length"] = nil
        return try await data(
            for: HTTPSessionRequest(
                url: url.absoluteString,
                method: method,
                headers: headers,
                body: body(of: request),
                timeouts: timeouts(request.timeoutInterval),
                handlesCookies: request.httpShouldHandleCookies,
                cachePolicy: CachePolicy(request.cachePolicy)
            )
        )
    }

    /// A stream is read once: a request with it is not sent again after a redirect or a 401.
    private func body(of request: URLRequest) -> RequestBody {
        if let bytes = request.httpBody { return .bytes(Array(bytes)) }
        guard let stream = request.httpBodyStream else { return .none }
        let once = OneStream(stream)
        let length = request.value(forHTTPHeaderField: "Content-Length").flatMap { text in
            let digits = Array(text.utf8)
            return DecimalNumber.parse(digits.span)
        }
        return .source(.inputStream(length: length) { once.take() })
    }

    /// The limits of a request with its own interval; nil for the session's.
    private func timeouts(_ interval: TimeInterval) -> TaskTimeouts? {
        let byDefault = 60.0
        guard interval > 0, interval != byDefault else { return nil }
        // A hundred years: `Duration` has a bound.
        return configuration.timeouts.waiting(atMost: .seconds(min(interval, 3_155_760_000)))
    }
}

/// A stream for the first caller.
///
/// `@unchecked Sendable`: `stream` is behind `lock`, and the caller that gets it is the only one that uses it.
private final class OneStream: @unchecked Sendable {
    private let lock = NSLock()
    private var stream: InputStream?

    init(_ stream: InputStream) { self.stream = stream }

    func take() -> InputStream? {
        lock.withLock {
            defer { stream = nil }
            return stream
        }
    }
}

extension CachePolicy {
    /// The session's policy for Foundation's; nil for Foundation's default, which leaves it to the session.
    init?(_ policy: NSURLRequest.CachePolicy) {
        switch policy {
        case .reloadIgnoringLocalCacheData: self = .reloadIgnoringLocalCacheData
        case .reloadIgnoringLocalAndRemoteCacheData: self = .reloadIgnoringLocalAndRemoteCacheData
        case .reloadRevalidatingCacheData: self = .reloadRevalidatingCacheData
        case .returnCacheDataElseLoad: self = .returnCacheDataElseLoad
        case .returnCacheDataDontLoad: self = .returnCacheDataDontLoad
        default: return nil
        }
    }
}

extension HTTPURLResponse {
    /// Converts a head to Foundation's type. Fields of one name are joined by commas, as by Foundation, `Set-Cookie`
    /// included.
    static func make(_ head: ResponseHead, url: URL) throws(SessionError) -> HTTPURLResponse {
        var fields: [String: String] = [:]
        var spelling: [String: String] = [:]
        for (name, value) in head.fields.list {
            let key = spelling[name.lowercased()] ?? name
            spelling[name.lowercased()] = key
            fields[key] = fields[key].map { "\($0), \(value)" } ?? value
        }
        let version = head.majorVersion == 2 ? "HTTP/2" : "HTTP/\(head.majorVersion).\(head.minorVersion)"
        guard
            let response = HTTPURLResponse(
                url: url,
                statusCode: head.status,
                httpVersion: version,
                headerFields: fields
            )
        else { throw SessionError(.internal, "Foundation does not take the response.") }
        return response
    }
}
