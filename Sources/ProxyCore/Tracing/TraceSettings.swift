// SPDX-License-Identifier: Apache-2.0
import SessionCore

/// What the export of spans needs besides the policy.
package struct TraceSettings: Sendable {
    var limits = SpanLimits()
    var log: PinMonitor.LogHandler = { $0.write($1, at: $2) }
    /// What fetches revocation lists.
    var lists: RevocationListSource?
    /// Of this program.
    var version = ""

    package init() {}
}
