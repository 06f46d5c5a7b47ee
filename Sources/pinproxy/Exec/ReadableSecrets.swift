// SPDX-License-Identifier: Apache-2.0
import Glibc
import ProxyConfiguration
import ProxyCore

/// Files of credentials that the program of `exec` can read, because it runs as pinproxy's user: what pinproxy keeps from it in
/// memory, it could find there.
enum ReadableSecrets {
    static func warn(_ configuration: Configuration) {
        for credential in configuration.credentials {
            for path in credential.source.secretFiles where access(path, R_OK) == 0 {
                EventLine(event: "warning")
                    .with("code", "credential_readable")
                    .with("credential", credential.name)
                    .with(
                        "message",
                        "CMD runs as the user of pinproxy, and can read \(path); to keep the credential from it, run pinproxy as another user"
                    )
                    .write(.warning, at: configuration.log.level)
            }
        }
    }
}
