// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyCore
import ServerTrust
import StrictJSON

/// The hosts that would be protected less after a reload. A file that was removed by mistake, or for a moment, looks
/// like one that was removed on purpose.
struct DroppedPins {
    private let losses: ProtectionLosses
    /// The number of hosts that are named; the rest is counted.
    private static let named = 20

    init(from old: PinnedDomains, to new: PinnedDomains) {
        losses = ProtectionLosses(from: old, to: new)
    }

    static let code = "pins_dropped"

    /// The number of hosts.
    var count: Int { losses.hosts.count }
    var isEmpty: Bool { losses.losses.isEmpty }

    private var changes: [String] { losses.losses.prefix(Self.named).map { "\($0.host): \($0.change)" } }

    /// The issue that explains why changed files alone are not enough for this.
    func refusal(file: String) -> DocumentIssue {
        let more = losses.losses.count - changes.count
        let rest = more > 0 ? "; and \(more) more" : ""
        return DocumentIssue(
            file: file,
            message:
                "the changed files would protect \(count == 1 ? "a host" : "\(count) hosts") less, which changed files "
                + "alone never do: \(changes.joined(separator: "; "))\(rest)",
            remedy: "if this is meant, send SIGHUP to pinproxy (with exec, start it anew); if not, put the files right"
        )
    }

    /// Nil when there is none.
    var event: EventLine? {
        guard !isEmpty else { return nil }
        return EventLine(event: "warning")
            .with("code", Self.code)
            .with("count", count)
            .with("domains", strings: losses.hosts.prefix(Self.named).map(\.description))
            .with("changes", strings: changes)
            .with(
                "message",
                "hosts are protected less than before: one that no pin file names may be reached over plain HTTP, and with any key"
            )
    }
}
