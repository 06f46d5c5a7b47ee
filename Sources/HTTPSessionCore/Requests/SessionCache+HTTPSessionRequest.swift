// SPDX-License-Identifier: Apache-2.0
public import SessionCore

extension SessionCache {
    /// Removes the stored responses for the request's URL, whatever its fields. A response that is still being received
    /// is not stored.
    public func removeCachedResponse(for request: HTTPSessionRequest) {
        removeCachedResponses(for: request.url)
    }
}
