// SPDX-License-Identifier: Apache-2.0
import ProxyConfiguration
import ProxyCore
import StrictJSON

/// What a reload would give away of credentials that are guarded now: one may go to unpinned hosts, or to clients without the
/// placeholder. A file that was replaced by mistake looks like one that was replaced on purpose.
struct OpenedCredentials {
    let changes: [String]

    init(from old: [CredentialDefinition], to new: [CredentialDefinition]) {
        let former = Dictionary(old.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        var changes: [String] = []
        for credential in new {
            guard let before = former[credential.name] else { continue }
            if credential.allowUnpinned, !before.allowUnpinned {
                changes.append("\"\(credential.name)\" may go to hosts that no pin file names")
            }
            if credential.placeholder == nil, before.placeholder != nil {
                changes.append("\"\(credential.name)\" needs no placeholder any more")
            }
        }
        self.changes = changes
    }

    static let code = "credentials_opened"

    /// The issue that explains why changed files alone are not enough for this; nil for no change.
    func refusal(file: String) -> DocumentIssue? {
        guard !changes.isEmpty else { return nil }
        return DocumentIssue(
            file: file,
            message: "the changed file would guard credentials less, which changed files alone never do: "
                + changes.joined(separator: "; "),
            remedy: "if this is meant, send SIGHUP to pinproxy (with exec, start it anew); if not, put the file right"
        )
    }
}
