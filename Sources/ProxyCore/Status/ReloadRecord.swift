// SPDX-License-Identifier: Apache-2.0
package import StrictJSON

/// The result of one load of the files: the start's, or a reload's.
package struct ReloadRecord: Sendable {
    /// Seconds since 1970.
    package var time: Int64
    /// `start`, `SIGHUP`, `files` or `request`.
    package var trigger: String
    /// The policy in force afterwards.
    package var generation: Int
    /// The reasons why nothing has changed; empty when the files are in force.
    package var issues: [DocumentIssue]
    /// The warnings of the files in force.
    package var warnings: [DocumentIssue]

    package init(
        time: Int64,
        trigger: String,
        generation: Int,
        issues: [DocumentIssue] = [],
        warnings: [DocumentIssue] = []
    ) {
        self.time = time
        self.trigger = trigger
        self.generation = generation
        self.issues = issues
        self.warnings = warnings
    }

    package var isApplied: Bool { issues.isEmpty }
}
