// SPDX-License-Identifier: Apache-2.0
extension FieldName {
    private static let permittedInTrailers: FieldNameSet = [.other, .etag, .link, .proxyStatus, .cacheStatus]

    /// Whether the field may be forwarded in a trailer section (RFC 9110 6.5.1). Known fields for framing, routing,
    /// authentication, or the interpretation of the message are not allowed.
    var isPermittedInTrailers: Bool { Self.permittedInTrailers.contains(self) }
}
