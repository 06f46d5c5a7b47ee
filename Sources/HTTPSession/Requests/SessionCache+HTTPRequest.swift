public import SessionCore

extension SessionCache {
    /// Drops what is stored for the request's URL, whatever its fields; a response that is on its way is not stored.
    public func removeCachedResponse(for request: HTTPRequest) {
        removeCachedResponses(for: request.url)
    }
}
