// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// The stored responses that a response to an unsafe method invalidates (RFC 9111 4.4).
public enum Invalidation {
    /// The same for a URL as text; no keys for text that is not a valid http or https URL.
    public static func keys(
        after method: HTTPMethod,
        of target: String,
        status: Int,
        response: HeaderFields
    ) -> [CacheKey] {
        guard let url = AbsoluteURL(target) else { return [] }
        return keys(after: method, of: url, status: status, response: response, CacheKeyRules())
    }

    /// - Parameters:
    ///   - method: of the request.
    ///   - target: of the request, without fragment.
    ///   - response: the fields of the response.
    ///   - rules: those of the target's host.
    /// - Returns: the keys to invalidate, in every partition: that of the target, and those of Location and
    ///   Content-Location if they have the same origin. None after a safe method or an error.
    package static func keys(
        after method: HTTPMethod,
        of target: AbsoluteURL,
        status: Int,
        response: HeaderFields,
        _ rules: CacheKeyRules
    ) -> [CacheKey] {
        guard !method.isSafe, (200..<400).contains(status) else { return [] }
        var keys = rules.keys(of: target)
        for name in [FieldName.location, .contentLocation] {
            guard let index = response.first(name), let url = target.resolving(response.value(at: index)),
                url.origin == target.origin
            else { continue }
            for key in rules.keys(of: url) where !keys.contains(key) { keys.append(key) }
        }
        return keys
    }
}
