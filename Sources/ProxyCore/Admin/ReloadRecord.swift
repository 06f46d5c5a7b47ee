// SPDX-License-Identifier: Apache-2.0
import HTTPCore
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

    /// The object in responses of the admin listener.
    var json: JSONLine {
        var line = JSONLine()
        line.add("time", Timestamp.text(unixSeconds: time))
        line.add("trigger", trigger)
        line.add("applied", isApplied)
        line.add("generation", generation)
        line.add("errors", array: issues.map { JSONLine($0).object })
        line.add("warnings", array: warnings.map { JSONLine($0).object })
        return line
    }
}
