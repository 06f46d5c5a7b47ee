// SPDX-License-Identifier: Apache-2.0
/// The files of the local CA: `interception` of the configuration, as absolute paths.
package struct InterceptionConfiguration: Hashable, Sendable {
    package var certificate: String
    package var key: String

    package init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }
}
