/// Which program this is, for the metrics.
package struct ProgramBuild: Sendable {
    /// By semver.org.
    package var version: String
    /// The version of OpenSSL that it runs on, as that names itself.
    package var openSSL: String

    package init(version: String, openSSL: String) {
        self.version = version
        self.openSSL = openSSL
    }
}
