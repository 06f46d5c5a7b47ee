// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration

/// The credentials that a rule gives to the requests that it lets through, prepared once for all of them.
final class RuleCredentials: Sendable {
    /// The place of the rule in the configuration.
    let place: Int
    let definitions: [CredentialDefinition]
    /// Their places in the configuration's list.
    let places: [Int]
    /// Whether hosts that no pin file names may have them.
    let allowsUnpinned: Bool
    /// The texts that the client has to send in their places.
    let placeholders: [CredentialPlaceholder]
    /// Whether a value that a server has refused (401) can be replaced by another one. What stands in a file or a variable is written
    /// by others, in their time.
    let canRenew: Bool
    private let ofClient: FieldChanges
    private let written: FieldChanges
    /// The part of a cache for their stored responses: by names and definitions, not values, so that no renewal loses them.
    let partition: [UInt8]
    /// The member of a log line.
    let logText: [UInt8]
    /// The region and service of the AWS signature among them; nil for most.
    let signing: AWSScope?

    /// - Parameters:
    ///   - names: of which the reader has found each among the definitions.
    ///   - all: every credential of the configuration.
    init(_ names: [String], of all: [CredentialDefinition], place: Int) {
        self.place = place
        places = names.compactMap { name in all.firstIndex { $0.name == name } }
        definitions = places.map { all[$0] }
        allowsUnpinned = definitions.allSatisfy(\.allowUnpinned)
        var (ofClient, written) = (FieldChanges(), FieldChanges())
        for header in ["Authorization", "Cookie"] { ofClient.remove(header) }
        for definition in definitions {
            let signed = definition.source.scope == nil ? [] : AWSFields.ofClient
            for header in [definition.header] + signed {
                ofClient.remove(header)
                written.remove(header)
            }
        }
        canRenew = definitions.contains { $0.source.makesValues }
        signing = definitions.lazy.compactMap(\.source.scope).first
        (self.ofClient, self.written) = (ofClient, written)
        partition = Array("credential:".utf8) + definitions.flatMap(\.digest)
        placeholders = definitions.compactMap { CredentialPlaceholder($0) }
        let list = definitions.map { "\"\($0.name)\"" }.joined(separator: ",")
        logText = Array(",\"credential\":\(definitions.count == 1 ? list : "[\(list)]")".utf8)
    }

    /// Removes the client's own fields, or trailers, that stay behind: they could make the request another account's. Those that are
    /// written are among them.
    func removeFieldsOfClient(from fields: inout HeaderFields) { ofClient.removeNames(from: &fields) }

    /// Removes what else in the configuration has set beside the fields that are written.
    func removeWritten(from fields: inout HeaderFields) { written.removeNames(from: &fields) }

    /// Whether the credential of that name is among them.
    func gives(_ name: String) -> Bool { definitions.contains { $0.name == name } }
}
