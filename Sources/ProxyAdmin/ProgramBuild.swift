// SPDX-License-Identifier: Apache-2.0
/// The program's version, for the metrics.
package struct ProgramBuild: Sendable {
    /// The version, in the form of semver.org.
    package var version: String
    /// The version of OpenSSL, as OpenSSL reports it.
    package var openSSL: String

    package init(version: String, openSSL: String) {
        self.version = version
        self.openSSL = openSSL
    }
}
