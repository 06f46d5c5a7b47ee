// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import ProxyConfiguration
import ProxyCore
import ServerTrust

/// The places of the local CA's files, from `--config` or `--dir`.
struct AuthorityFiles {
    var certificate: String
    var key: String
    /// The hosts that the configuration intercepts; empty without one.
    var hosts: [String] = []

    static let certificateName = "pinproxy-ca.pem"
    static let keyName = "pinproxy-ca.key"

    static let options = [
        Command.Option.configuration("the configuration whose interception names the files"),
        Command.Option(
            name: "dir",
            value: "DIR",
            summary: "the folder of \(certificateName) and \(keyName) (default: this one)"
        ),
    ]

    init(_ arguments: Arguments) throws(CommandFailure) {
        guard let path = arguments.values["config"] else {
            let folder = arguments.values["dir"] ?? "."
            certificate = "\(folder)/\(Self.certificateName)"
            key = "\(folder)/\(Self.keyName)"
            return
        }
        guard arguments.values["dir"] == nil else {
            throw CommandFailure(.usage, "--config and --dir both say where the files are", remedy: "give one of them")
        }
        guard access(path, F_OK) == 0 else {
            throw CommandFailure(
                .inputMissing,
                "\(Arguments.shown(path: path)) does not exist",
                remedy: "name a configuration"
            )
        }
        let plan = InterceptionPlan(configuration: path)
        guard plan.issues.isEmpty else {
            Output.error(plan.issues.map { "\($0)\n" }.joined())
            throw CommandFailure(.badConfiguration, "the configuration cannot be read")
        }
        guard let files = plan.files else {
            throw CommandFailure(
                .badConfiguration,
                "\(Arguments.shown(path: path)) does not say where the local CA is",
                remedy:
                    "add \"interception\": { \"certificate\": \"\(Self.certificateName)\", \"key\": \"\(Self.keyName)\" }"
            )
        }
        certificate = files.certificate
        key = files.key
        hosts = plan.hosts.map(\.description)
    }
}
