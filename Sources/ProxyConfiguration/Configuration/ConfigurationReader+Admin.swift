// SPDX-License-Identifier: Apache-2.0
import ServerTrust
package import StrictJSON

extension ConfigurationReader {
    mutating func readAdmin(_ object: DocumentObject) {
        comment(object)
        let endpoint = readEndpoint(object, example: "127.0.0.1:8081")
        let allowRemoteClients = object["allowRemoteClients"]
        let isRemote = allowRemoteClients?.bool() ?? false
        var admin = AdminConfiguration(endpoint: endpoint ?? .unixSocket(path: ""), allowRemoteClients: isRemote)
        if let elements = object.elements("allowedHosts") {
            admin.allowedHosts = elements.compactMap { element in
                element.string().flatMap { HostName.read($0, on: element) }
            }
        }
        checkReach(
            endpoint,
            object,
            isAllowed: isRemote,
            by: allowRemoteClients,
            danger: "see what the proxy does"
        )
        if let element = object["tokenFile"], let path = element.path() {
            admin.tokenFile = path
            adminToken = Placed(value: path, element: element)
        }
        object.finish()
        guard let endpoint else { return }
        configuration.admin = admin
        if admin.isRemote, isRemote { checkRemote(object) }
        if configuration.listeners.contains(where: { Self.collide($0.endpoint, endpoint) }) {
            object.element.report(
                "listens where a listener does (\(endpoint))",
                remedy: "change its \(endpoint.isUnixSocket ? "path" : "port")"
            )
        }
    }
}

extension ConfigurationReader {
    /// Other machines could see all tasks and stop the proxy: they have to present a token.
    private func checkRemote(_ object: DocumentObject) {
        guard object.has("tokenFile") else {
            object["address"]?.report(
                "other machines can reach it, and there is no token for them",
                remedy:
                    "add \"tokenFile\": \"admin.token\" (openssl rand -hex 32 > admin.token), or listen on 127.0.0.1"
            )
            return
        }
        object["address"]?.warn(
            "the admin listener has no TLS: its token, and what it shows, can be read on the way from other machines",
            remedy: "listen on 127.0.0.1 or a Unix socket, or let only networks reach it in which nobody reads along"
        )
    }
}

extension AdminConfiguration {
    /// The reason why a configuration has no usable address of its admin listener.
    package enum LookupFailure: Error, Sendable {
        case missingFile
        case issues([DocumentIssue])
        /// It has none.
        case absent
    }

    /// Reads only the admin listener's settings: a command can reach a running proxy even if its configuration file has
    /// an error by now.
    package static func lookUp(path: String) throws(LookupFailure) -> AdminConfiguration {
        let reader = DocumentReader(file: path)
        guard reader.root != nil else {
            if FileContents.isMissing(path) { throw .missingFile }
            throw .issues(reader.issues)
        }
        var read = ConfigurationReader(reader)
        read.read()
        if let admin = read.configuration.admin { return admin }
        let issues = reader.issues.filter { $0.pointer.hasPrefix("/admin") }
        throw issues.isEmpty ? .absent : .issues(issues)
    }
}
