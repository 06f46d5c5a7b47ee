// SPDX-License-Identifier: Apache-2.0
import Foundation
package import ServerTrust

/// The configuration of a proxy under test, as the JSON of its files. The defaults: one forward listener on a free
/// port, no pins, and only the test's own trust anchors.
package struct ProxySettings {
    package var listeners: [[String: Any]] = [["address": "127.0.0.1:0", "mode": "forward"]]
    package var hosts: [String: [String: Any]] = [:]
    package var pinnedDomains: [String: [String: Any]] = [:]
    package var anchors: [Certificate]
    /// Further members of `config.json`.
    package var members: [String: Any] = ["workers": 2]
    /// Further files, by their path in the configuration's folder.
    package var files: [String: String] = [:]

    package init(trusting pki: TestPKI...) {
        anchors = pki.map(\.root.certificate)
    }

    // MARK: Steps of many tests

    /// Directs a host's connections to a port of this machine.
    package mutating func resolve(_ host: String, to port: UInt16) {
        hosts[host, default: [:]]["resolve"] = "127.0.0.1:\(port)"
    }

    /// Pins a host's key, with a spare pin.
    package mutating func pin(_ host: String, to pin: PublicKeyPin, with members: [String: Any] = [:]) {
        let spare = PublicKeyPin.unrelated()
        pinnedDomains[host] =
            [
                "pinningMode": "publicKey",
                "pins": ["\(pin)", "\(spare)"],
            ].merging(members) { $1 }
    }

    /// Pins a host's certificate.
    package mutating func pin(_ host: String, toCertificate certificate: Certificate, with members: [String: Any] = [:])
    {
        files["pins/\(host).pem"] = certificate.pem
        pinnedDomains[host] =
            [
                "pinningMode": "certificate",
                "pinnedCertificates": ["\(host).pem"],
            ].merging(members) { $1 }
    }

    /// Adds a host with an origin on this machine, and pins its key.
    package mutating func serve(_ host: String, _ server: TestServer, at port: UInt16) {
        resolve(host, to: port)
        pin(host, to: server.pin)
    }

    package mutating func addGateway(to host: String) {
        listeners.append(["address": "127.0.0.1:0", "mode": "gateway", "upstream": "https://\(host)"])
    }

    package mutating func addUnixSocket(_ path: String, gatewayTo host: String? = nil) {
        var listener: [String: Any] = ["unixSocket": path, "mode": host == nil ? "forward" : "gateway"]
        if let host { listener["upstream"] = "https://\(host)" }
        listeners.append(listener)
    }

    /// Members of `defaults.timeouts`.
    package mutating func setTimeouts(_ timeouts: [String: String]) {
        members["defaults"] = ["timeouts": timeouts]
    }

    // MARK: Files

    /// Writes `config.json`, the pin file and the anchors.
    ///
    /// - Returns: the configuration's path.
    package func write(to folder: TemporaryFolder) throws -> String {
        var configuration: [String: Any] = [
            "version": 1,
            "listeners": listeners,
            "hosts": hosts,
            "trustAnchors": ["system": false, "files": ["anchors.pem"]],
        ]
        try folder.write(anchors.map(\.pem).joined(), as: "anchors.pem")
        for (path, text) in files { try folder.write(text, as: path) }
        if !pinnedDomains.isEmpty {
            configuration["pins"] = "pins"
            try folder.write(
                bytes: Self.json(["version": 1, "pinnedDomains": pinnedDomains]),
                as: "pins/test.json"
            )
        }
        configuration.merge(members) { $1 }
        return try folder.write(bytes: Self.json(configuration), as: "config.json")
    }

    private static func json(_ value: [String: Any]) throws -> [UInt8] {
        Array(try JSONSerialization.data(withJSONObject: value, options: [.prettyPrinted, .sortedKeys]))
    }
}
