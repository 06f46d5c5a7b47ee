extension FieldName {
    private static let permittedInTrailers: FieldNameSet = [.other, .etag, .proxyStatus, .cacheStatus]

    /// Whether it may stand in a trailer section and be passed on (RFC 9110 6.5.1): of the names known here only those
    /// that neither frame, route, authenticate, nor change how the message is read.
    package var isPermittedInTrailers: Bool { Self.permittedInTrailers.contains(self) }
}
