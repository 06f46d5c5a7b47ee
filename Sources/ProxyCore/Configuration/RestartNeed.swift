/// A key of `config.json` that a reload does not take in: its value is that of the start until the next one.
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

    /// Puts what runs in the place of what is only written.
    static func keep(_ running: PolicyParts, in next: inout PolicyParts) {
        next.configuration.listeners = running.configuration.listeners
        next.configuration.admin = running.configuration.admin
        next.configuration.workers = running.configuration.workers
        // Files that only the listeners of the next start name have been read instead of these.
        next.tlsMaterial.merge(running.tlsMaterial) { next, _ in next }
        next.credentials.merge(running.credentials) { next, _ in next }
    }
}
