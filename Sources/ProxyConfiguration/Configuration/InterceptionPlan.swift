// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import ServerTrust
package import StrictJSON

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
