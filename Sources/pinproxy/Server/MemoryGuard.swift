// SPDX-License-Identifier: Apache-2.0
import CShims
import ProxyConfiguration
import ProxyCore

/// Keeps other processes of the user, and core dumps, from reading the credentials in this process.
enum MemoryGuard {
    /// Called before a policy with credentials is used; it cannot be taken back, and need not be.
    static func hide(for configuration: Configuration) {
        guard !configuration.credentials.isEmpty else { return }
        _ = pinproxy_hide_memory()
    }
}
