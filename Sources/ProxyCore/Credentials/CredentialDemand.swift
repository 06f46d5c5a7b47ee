// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration

/// Whether a request may have the credentials of its rule, by what its client has sent.
struct CredentialDemand {
    /// Why it may not.
    let problem: Problem?

    init(_ head: borrowing RequestHead, _ given: RuleCredentials?, _ placeholders: [CredentialPlaceholder]) {
        for other in placeholders where given?.gives(other.credential) != true && other.isHeld(in: head.fields) {
            problem = Problem(
                .credentialMisdirected,
                "The request has the placeholder of the credential \"\(other.credential)\", which its rule does not give it. Send the placeholder only where a rule of requests names the credential."
            )
            return
        }
        guard let given else {
            problem = nil
            return
        }
        if RequestingSite(head).isOther {
            problem = Problem(
                .credentialWithheld,
                status: 403,
                "A web page of another site made a browser send this request, which gets no credential."
            )
        } else if let missing = given.placeholders.first(where: { !$0.isHeld(in: head.fields) }) {
            // git and others keep what their URL holds until they are asked for it (RFC 9110, section 11.6.1).
            let isAskedFor = missing.isPassword && !head.fields.contains(.authorization)
            problem = Problem(
                .credentialRequired,
                status: isAskedFor ? 401 : nil,
                "The request has not the placeholder of the credential \"\(missing.credential)\" in \(missing.header). Let the client use the placeholder as its key there.",
                challenges: isAskedFor ? .basicOfOrigin : []
            )
        } else if given.signing != nil, AWSFields.signsChunks(head.fields) {
            problem = Problem(
                .credentialWithheld,
                status: 403,
                "The client signs each chunk of the body with its own key (X-Amz-Content-SHA256), so that no other signature fits. Let it sign the whole body, or none of it over TLS."
            )
        } else if given.signing != nil, AWSFields.hasSignature(inQueryOf: head.target) {
            problem = Self.signedQuery
        } else {
            problem = nil
        }
    }

    static var signedQuery: Problem {
        Problem(
            .credentialWithheld,
            status: 403,
            "The query has a signature or keys that are not pinproxy's (X-Amz-Signature and its kind), and the request would have two. Let the client sign in Authorization, or not at all."
        )
    }
}

extension Problem {
    /// The source of a credential gives no value.
    init(_ fault: CredentialFault, of name: String) {
        self.init(
            .credentialUnavailable,
            "The credential \"\(name)\" cannot be had: \(fault.code.cause). The event credentialFailed in the proxy's log says more, and so does pinproxy check credential \(name)."
        )
    }

    static func waitedTooLong(for rule: RuleCredentials) -> Problem {
        let names = rule.definitions.map { "\"\($0.name)\"" }.joined(separator: ", ")
        return Problem(
            .credentialUnavailable,
            "The source of the credential \(names) gave nothing within timeouts.queue. Try again, or raise the limit."
        )
    }
}
