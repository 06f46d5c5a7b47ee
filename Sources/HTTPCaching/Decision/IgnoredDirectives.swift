// SPDX-License-Identifier: Apache-2.0
/// Directives of requests that the owner does not obey. They go to the origin nevertheless.
package struct IgnoredDirectives: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let noCache = IgnoredDirectives(rawValue: 1)
    package static let noStore = IgnoredDirectives(rawValue: 2)
    package static let maxAge = IgnoredDirectives(rawValue: 4)
    package static let minFresh = IgnoredDirectives(rawValue: 8)
    /// `Pragma: no-cache` in a request without Cache-Control.
    package static let pragma = IgnoredDirectives(rawValue: 16)
}
