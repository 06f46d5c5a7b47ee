package import HTTPCore
import ServerTrust
package import StrictJSON

/// The files of the local CA: `interception` of the configuration, as absolute paths.
package struct InterceptionConfiguration: Hashable, Sendable {
    package var certificate: String
    package var key: String

    package init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }
}

/// The configuration of interception, read before there is a CA: `ca init` makes it.
package struct InterceptionPlan {
    package var files: InterceptionConfiguration?
    /// The hosts whose `connect` is `intercept`.
    package var hosts: [Host]
    /// The issues of the file itself; the files that it names are not read.
    package var issues: [DocumentIssue]

    /// Reads a configuration: blocking disk I/O.
    package init(configuration path: String) {
        var read = ConfigurationReader(DocumentReader(file: path))
        read.read()
        files = read.configuration.interception
        hosts = read.configuration.hosts.filter { $0.connect == .intercept }.compactMap(\.host)
        issues = read.reader.issues
    }
}
