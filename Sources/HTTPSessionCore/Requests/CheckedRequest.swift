// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// The parts of a request that can be refused, parsed: once for a task, and once more for each request that follows in it.
///
/// An object, since task and execution share it, and a copy of its parts costs a thousand instructions.
final class CheckedRequest: Sendable {
    let place: RequestURL
    /// The request's own fields and the session's `additionalHeaders`, without those that depend on the time of sending.
    let fields: HeaderFields
    let endpoint: Endpoint

    /// - Parameter endpoint: the endpoint of an origin.
    /// - Throws: `requestInvalid` for a request that cannot be sent, and the error of `endpoint`.
    init(
        _ request: HTTPSessionRequest,
        additionalHeaders: HTTPHeaders,
        endpoint: (Origin) throws(SessionError) -> Endpoint
    ) throws(SessionError) {
        place = try RequestURL(escaped: request.url)
        var headers = request.headers
        headers.appendMissing(of: additionalHeaders)
        fields = try headers.checked()
        try SessionRequest.check(method: request.method, fields: fields)
        self.endpoint = try endpoint(place.origin)
    }
}
