// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

extension ConfigurationLoader {
    /// Reports rules whose credentials would go to hosts that no pin file names.
    ///
    /// - Parameter now: seconds since 1970.
    static func checkCredentials(_ read: ConfigurationReader, _ pinnedDomains: PinnedDomains, now: Int64) {
        for use in read.credentialUses {
            for name in use.names {
                guard let definition = read.credentials.first(where: { $0.value.name == name.value })?.value else {
                    continue
                }
                for case .exactly(let host) in use.rule.value.hosts {
                    check(host, definition, use.rule, name.element, read, pinnedDomains, now)
                }
            }
        }
        for credential in read.credentials {
            guard case .oauth2(let client) = credential.value.source else { continue }
            let origin = client.tokenURL.origin
            guard !credential.value.allowUnpinned, !pinnedDomains.covers(host: origin.host, port: origin.port) else {
                continue
            }
            credential.element.report(
                "no pin file names \(origin.host.authorityText(port: origin.port)), and the client's secret would go to whoever has a "
                    + "certificate for it",
                remedy: "pin the host of \"tokenURL\", or write \"allowUnpinned\": true"
            )
        }
    }

    private static func check(
        _ host: Host,
        _ definition: CredentialDefinition,
        _ rule: ConfigurationReader.Placed<RequestRule>,
        _ element: DocumentElement,
        _ read: ConfigurationReader,
        _ pinnedDomains: PinnedDomains,
        _ now: Int64
    ) {
        guard !pinnedDomains.names(host) else {
            let ports = rule.value.ports.isEmpty ? [443] : rule.value.ports
            for port in ports
            where !definition.allowUnpinned && !pinnedDomains.isHeldToPins(host: host, port: port, at: now) {
                element.warn(
                    "\(host.authorityText(port: port)) is not held to its pins, and \"\(definition.name)\" is not sent there",
                    remedy: "let its pins be enforced on that port, and be in date"
                )
            }
            return
        }
        guard definition.allowUnpinned else {
            return element.report(
                "no pin file names \(host), and \"\(definition.name)\" would go to whoever has a certificate for it",
                remedy: "pin the host (pinproxy pins show \(host)), or write \"allowUnpinned\": true in the credential"
            )
        }
        let entry = read.configuration.hosts.first { $0.host == host }
        guard entry?.upgrade != true else { return }
        element.report(
            "\"\(definition.name)\" goes to \(host) over TLS alone, and a request for http://\(host) would not",
            remedy: "write \"upgrade\": true in the entry of \(host) in \"hosts\""
        )
    }
}
