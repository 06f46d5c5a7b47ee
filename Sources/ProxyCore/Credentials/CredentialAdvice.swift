// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import ServerTrust
package import StrictJSON

/// The words of `pinproxy check` about credentials beyond the errors of the configuration: none of it prevents a start, and no socket is
/// opened and no command run for it.
package enum CredentialAdvice {
    /// - Parameter file: the configuration's path, for the places of the warnings.
    package static func warnings(_ snapshot: PolicySnapshot, file: String) -> [DocumentIssue] {
        let configuration = snapshot.configuration
        return configuration.credentials.flatMap { sources(of: $0, snapshot, file) }
            + configuration.hosts.compactMap { givenOtherwise($0, file) }
    }

    private static func sources(
        of definition: CredentialDefinition,
        _ snapshot: PolicySnapshot,
        _ file: String
    ) -> [DocumentIssue] {
        let place = JSONPointer.member(definition.name, of: "/credentials")
        var found: [DocumentIssue] = []
        if definition.source.file != nil || definition.source.kind == "env",
            case .failure(let fault) = CredentialTrial.run(definition, under: snapshot)
        {
            found.append(
                DocumentIssue(
                    file: file,
                    pointer: place,
                    message: "\"\(definition.name)\" has no value: \(fault.message)",
                    remedy: "requests that need it are refused until it has one"
                )
            )
        }
        for path in definition.source.secretFiles where FileContents.isReadableByEveryone(path) {
            found.append(
                DocumentIssue(
                    file: file,
                    pointer: place,
                    message: "every user of this machine can read \(path)",
                    remedy: "chmod 600 \(path)"
                )
            )
        }
        return found
    }

    /// Fields of `headers` keep none of what credentials promise.
    private static func givenOtherwise(_ entry: HostConfiguration, _ file: String) -> DocumentIssue? {
        let changes = entry.headers.request
        guard let host = entry.host, let setting = (changes.set + changes.added).first(where: { $0.source.isOutside })
        else {
            return nil
        }
        return DocumentIssue(
            file: file,
            pointer: JSONPointer.member(host.description, of: "/hosts") + "/headers/request",
            message: "every request to \(host) gets \(setting.name), whoever sends it, and responses may show it",
            remedy:
                "a credential (docs/credentials.md) is for the requests of a rule, goes out after the pins have held, and is masked "
                + "in responses"
        )
    }
}
