// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

/// The credentials that a rule gives to the requests that it lets through, prepared once for all of them.
final class RuleCredentials: Sendable {
    /// The place of the rule in the configuration.
    let place: Int
    let definitions: [CredentialDefinition]
    /// Their places in the configuration's list.
    let places: [Int]
    /// Whether hosts that no pin file names may have them.
    let allowsUnpinned: Bool
    /// What stays behind of the client's own fields and trailers: they could make the request another account's.
    let ofClient: FieldChanges
    /// The fields that are written. Nothing else in the configuration sets them beside these.
    let written: FieldChanges
    /// What their stored responses are kept apart by: names and definitions, not values, so that no renewal loses them.
    let partition: [UInt8]
    /// The member of a log line.
    let logText: [UInt8]
    /// What the signature of AWS among them is for; nil for most.
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
        signing = definitions.lazy.compactMap(\.source.scope).first
        (self.ofClient, self.written) = (ofClient, written)
        partition = Array("credential:".utf8) + SecretDigest.sha256(Array("\(definitions)".utf8)).hexadecimal
        let list = definitions.map { "\"\($0.name)\"" }.joined(separator: ",")
        logText = Array(",\"credential\":\(definitions.count == 1 ? list : "[\(list)]")".utf8)
    }

    /// Whether a request holds what its client has to send in the place of each credential.
    func missingPlaceholder(in fields: borrowing HeaderFields) -> CredentialDefinition? {
        for definition in definitions where definition.placeholder != nil {
            if !definition.isPlaceholder(in: fields) { return definition }
        }
        return nil
    }
}

extension [UInt8] {
    /// The bytes in hexadecimal digits.
    fileprivate var hexadecimal: [UInt8] {
        let digits = Array<UInt8>("0123456789abcdef".utf8)
        return flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
    }
}
