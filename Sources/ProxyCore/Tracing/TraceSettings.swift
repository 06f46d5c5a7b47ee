// SPDX-License-Identifier: Apache-2.0
import SessionCore

/// Settings of the export of spans besides the policy.
package struct TraceSettings: Sendable {
    var limits = SpanLimits()
    var log: PinMonitor.LogHandler = { $0.write($1, at: $2) }
    /// The source of revocation lists.
    var lists: RevocationListSource?
    /// Of this program.
    var version = ""

    package init() {}
}
