// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

/// What the clients of credentials send in their place: the placeholders of a policy.
package struct CredentialPlaceholders: Sendable {
    /// The credentials whose placeholders stand in one field.
    private struct Field: Sendable {
        let name: FieldName
        let text: [UInt8]
        var definitions: [CredentialDefinition]

        func isNamed(_ other: [UInt8]) -> Bool { text.span.equalsIgnoringCase(other.span) }
    }

    private var fields: [Field] = []

    /// - Returns: nil when no credential has one.
    init?(_ definitions: [CredentialDefinition]) {
        for definition in definitions where definition.placeholder != nil {
            let text = Array(definition.header.utf8)
            if let known = fields.firstIndex(where: { $0.isNamed(text) }) {
                fields[known].definitions.append(definition)
            } else {
                fields.append(Field(name: FieldName(text.span), text: text, definitions: [definition]))
            }
        }
        if fields.isEmpty { return nil }
    }

    /// The credential whose placeholder a request has, although no rule gives it to the request.
    func misdirected(in sent: borrowing HeaderFields, beside given: RuleCredentials?) -> CredentialDefinition? {
        for field in fields where sent.mayContain(anyOf: [field.name]) {
            for definition in field.definitions
            where given?.definitions.contains(definition) != true && definition.isPlaceholder(in: sent) {
                return definition
            }
        }
        return nil
    }
}

extension CredentialDefinition {
    /// Whether a request has the placeholder in the field that the credential is written to.
    func isPlaceholder(in fields: borrowing HeaderFields) -> Bool {
        guard let placeholder else { return true }
        let wanted = Array(placeholder.utf8)
        let name = Array(header.utf8)
        let id = FieldName(name.span)
        for index in 0..<fields.count where fields.id(at: index) == id {
            guard id != .other || fields.name(at: index).equalsIgnoringCase(name.span) else { continue }
            let value = fields.value(at: index)
            if value.contains(wanted) { return true }
            // What git and others make of a user and password (RFC 7617).
            guard value.hasPrefixIgnoringCase("basic "),
                let pair = Base64.decode(Array(copying: value.extracting(6..<value.count)))
            else { continue }
            let decoded = pair.span
            if decoded.contains(wanted) { return true }
        }
        return false
    }
}

extension Span<UInt8> {
    fileprivate func contains(_ wanted: [UInt8]) -> Bool {
        guard !wanted.isEmpty, wanted.count <= count else { return false }
        for start in 0...(count - wanted.count) {
            if extracting(start..<(start + wanted.count)).equals(wanted.span) { return true }
        }
        return false
    }
}

/// Whether a request may have the credentials of its rule, by what its client has sent.
struct CredentialDemand {
    /// Why it may not.
    let problem: Problem?

    init(_ head: borrowing RequestHead, _ given: RuleCredentials?, _ placeholders: CredentialPlaceholders?) {
        if let other = placeholders?.misdirected(in: head.fields, beside: given) {
            problem = Problem(
                .credentialMisdirected,
                "The request has the placeholder of the credential \"\(other.name)\", which its rule does not give it. Send the placeholder only where a rule of requests names the credential."
            )
            return
        }
        guard let given else {
            problem = nil
            return
        }
        if let missing = given.missingPlaceholder(in: head.fields) {
            problem = Problem(
                .credentialRequired,
                "The request has not the placeholder of the credential \"\(missing.name)\" in \(missing.header). Let the client use the placeholder as its key there."
            )
        } else if given.signing != nil, AWSFields.signsChunks(head.fields) {
            problem = Problem(
                .credentialWithheld,
                status: 403,
                "The client signs each chunk of the body with its own key (X-Amz-Content-SHA256), so that no other signature fits. Let it sign the whole body, or none of it over TLS."
            )
        } else if RequestingSite(head).isOther {
            problem = Problem(
                .credentialWithheld,
                status: 403,
                "A web page of another site made a browser send this request, which gets no credential."
            )
        } else {
            problem = nil
        }
    }
}

extension Problem {
    /// The source of a credential gives no value.
    init(_ fault: CredentialFault, of name: String) {
        self.init(.credentialUnavailable, "The credential \"\(name)\" cannot be had: \(fault.message).")
    }

    static func waitedTooLong(for rule: RuleCredentials) -> Problem {
        let names = rule.definitions.map { "\"\($0.name)\"" }.joined(separator: ", ")
        return Problem(
            .credentialUnavailable,
            "The source of the credential \(names) gave nothing within timeouts.queue. Try again, or raise the limit."
        )
    }
}
