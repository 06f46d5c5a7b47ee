// SPDX-License-Identifier: Apache-2.0
/// A key of `config.json` that a reload does not apply: its value from the start stays until the next start.
package enum RestartNeed: String, CaseIterable, Sendable {
    case listeners
    case admin
    case workers

    /// The keys whose values differ.
    package static func between(_ running: Configuration, _ next: Configuration) -> [RestartNeed] {
        allCases.filter { need in
            switch need {
            case .listeners: running.listeners != next.listeners
            case .admin: running.admin != next.admin
            case .workers: running.workers != next.workers
            }
        }
    }

    /// Replaces the new values of these keys with the running ones.
    package static func keep(_ running: PolicyParts, in next: inout PolicyParts) {
        // The file's new contents count at once, another file only after a restart.
        if next.configuration.admin != running.configuration.admin { next.adminToken = running.adminToken }
        next.configuration.listeners = running.configuration.listeners
        next.configuration.admin = running.configuration.admin
        next.configuration.workers = running.configuration.workers
        // Some files may have been read only for listeners of the next start.
        next.tlsMaterial.merge(running.tlsMaterial) { next, _ in next }
        next.credentials.merge(running.credentials) { next, _ in next }
    }
}
