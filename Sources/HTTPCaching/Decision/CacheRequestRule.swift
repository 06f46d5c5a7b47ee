// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// A rule of the configuration about the requests for some paths. Of the rules with one kind of value the first that
/// fits decides.
package struct CacheRequestRule<Value: Hashable & Sendable>: Hashable, Sendable {
    /// A pattern for the target's path, without its query; nil for every target.
    package var path: PathPattern?
    /// nil for every method.
    package var method: HTTPMethod?
    package var value: Value
    /// Its place in the list of the configuration, for counts.
    package let place: Int

    package init(path: PathPattern? = nil, method: HTTPMethod? = nil, _ value: Value, at place: Int = 0) {
        self.path = path
        self.method = method
        self.value = value
        self.place = place
    }

    /// - Parameter target: path and query.
    package func fits(_ method: HTTPMethod, target: borrowing Span<UInt8>) -> Bool {
        if let wanted = self.method, wanted != method { return false }
        return path?.matches(target) ?? true
    }
}
