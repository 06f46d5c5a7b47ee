package import HTTPCore
import ServerTrust
package import StrictJSON

/// Where the local CA's files are: `interception` of the configuration, ready to open.
package struct InterceptionConfiguration: Hashable, Sendable {
    package var certificate: String
    package var key: String

    package init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }
}

/// What a configuration says of interception, read before there is a CA: `ca init` makes it.
package struct InterceptionPlan {
    package var files: InterceptionConfiguration?
    /// The hosts whose `connect` is `intercept`.
    package var hosts: [Host]
    /// What is wrong with the file by itself; the files that it names are not looked at.
    package var issues: [DocumentIssue]

    /// Blocking disk I/O.
    package init(configuration path: String) {
        var read = ConfigurationReader(DocumentReader(file: path))
        read.read()
        files = read.configuration.interception
        hosts = read.configuration.hosts.filter { $0.connect == .intercept }.compactMap(\.host)
        issues = read.reader.issues
    }
}
