public import Foundation
import HTTPCore
public import HTTPSession
public import SessionCore

#if canImport(FoundationNetworking)
public import FoundationNetworking
#endif

extension HTTPSessionManager {
    /// Carries out a `URLRequest` as `URLSession.data(for:)` does, with this session's server trust.
    ///
    /// It uses URL, method, header fields, `httpBody`, `cachePolicy` and `httpShouldHandleCookies`; the time limits are
    /// the session's, and those of the request are ignored. `useProtocolCachePolicy` leaves the cache policy to the
    /// session. `Content-Length` is made from `httpBody`.
    ///
    /// - Throws: `SessionError`; `urlError` converts it to Foundation's. `requestInvalid` for a URL that is no http or
    ///   https, for fields that the session makes itself, and for a body stream.
    public func data(for request: URLRequest) async throws(SessionError) -> (Data, HTTPURLResponse) {
        let (response, url) = try await response(for: request)
        return (Data(response.data), try HTTPURLResponse.make(response.response, url: url))
    }

    /// GET.
    public func data(from url: URL) async throws(SessionError) -> (Data, HTTPURLResponse) {
        try await data(for: URLRequest(url: url))
    }

    private func response(for request: URLRequest) async throws(SessionError) -> (DataResponse, URL) {
        guard let url = request.url else { throw SessionError(.requestInvalid, "The request has no URL.") }
        guard request.httpBodyStream == nil else {
            throw SessionError(.requestInvalid, "A body stream is not read; give the body as httpBody.")
        }
        guard let method = HTTPMethod(request.httpMethod ?? "GET") else {
            throw SessionError(.requestInvalid, "The request's method is no token.")
        }
        var fields = HTTPFields()
        for (name, value) in (request.allHTTPHeaderFields ?? [:]).sorted(by: { $0.key < $1.key })
        where name.lowercased() != "content-length" {
            do {
                try fields.append(name: name, value: value)
            } catch {
                throw SessionError(.requestInvalid, "A header field cannot be sent: \(error).")
            }
        }
        let response = try await data(
            for: HTTPRequest(
                url: url.absoluteString,
                method: method,
                fields: fields,
                body: request.httpBody.map { .bytes(Array($0)) } ?? .none,
                handlesCookies: request.httpShouldHandleCookies,
                cachePolicy: CachePolicy(request.cachePolicy)
            )
        )
        return (response, url)
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
