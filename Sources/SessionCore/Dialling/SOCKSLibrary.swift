// SPDX-License-Identifier: Apache-2.0
import CShims

/// libcurl, which makes the ways through SOCKS proxies. It is loaded when the first of them is configured: it brings twenty other
/// libraries, and most processes need none of them.
package enum SOCKSLibrary {
    /// What to do where it cannot be loaded, for people.
    package static let remedy = "install Debian's package libcurl4t64, or libcurl4 on Debian 12"

    /// Loads it, once a process.
    ///
    /// - Returns: why it cannot be used, for people; nil when it can.
    package static func load() -> String? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { reason in
            pinproxy_socks_load(reason.baseAddress, reason.count)
                ? nil : "libcurl, which speaks SOCKS, cannot be loaded (\(String(cString: reason.baseAddress!)))"
        }
    }

    /// Its version; nil where it cannot be loaded.
    package static var version: String? { load() == nil ? pinproxy_socks_version().map { String(cString: $0) } : nil }
}
