// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// One request for a token (RFC 6749, section 4.4): a POST over TLS, without redirects.
///
/// The client's secret goes to a server that is held to its pins, or, with `allowUnpinned`, that no pin file names.
final class OAuthRequest: LoopTaskDelegate {
    /// What a server has to have proved before it gets the client's secret.
    private let demand: GuardedFields.Demand
    private let completion: (Result<[UInt8], CredentialFault>) -> Void
    private var status = 0
    private var body: [UInt8] = []
    private var fault: CredentialFault?
    private var isOver = false

    private init(
        _ demand: GuardedFields.Demand,
        _ completion: @escaping (Result<[UInt8], CredentialFault>) -> Void
    ) {
        self.demand = demand
        self.completion = completion
    }

    /// Sends the request.
    ///
    /// - Parameters:
    ///   - secret: the client's.
    ///   - completion: called once, not from within `start`, with the body of a response 200.
    static func start(
        _ client: OAuthClient,
        secret: SecretBytes,
        allowUnpinned: Bool,
        at endpoint: Endpoint,
        on session: LoopSession,
        _ completion: @escaping (Result<[UInt8], CredentialFault>) -> Void
    ) {
        var fields = HeaderFields()
        func append(_ name: String, _ value: [UInt8]) { fields.append(name: Array(name.utf8).span, value: value.span) }
        append("Content-Type", Array("application/x-www-form-urlencoded".utf8))
        append("Accept", Array("application/json".utf8))
        append("Accept-Encoding", Array("identity".utf8))
        append("User-Agent", Array("pinproxy".utf8))
        if client.secretIn == .header { append("Authorization", basic(client, secret)) }
        var form = form(client, secret)
        let request = SessionRequest(
            endpoint: endpoint,
            method: .post,
            target: client.tokenURL.target,
            fields: fields,
            bodyLength: .bytes(form.count)
        )
        let demand = GuardedFields.Demand(allowUnpinned: allowUnpinned)
        let task = session.dataTask(with: request, delegate: OAuthRequest(demand, completion))
        task.send(form.span)
        form.wipe()
        task.finishSending()
        task.resume()
    }

    // MARK: What is sent

    /// RFC 6749, section 2.3.1: both are encoded as in a form before they become user and password.
    static func basic(_ client: OAuthClient, _ secret: SecretBytes) -> [UInt8] {
        var pair = encoded(Array(client.clientID.utf8)) + [UInt8(ascii: ":")] + encoded([UInt8](copying: secret.bytes))
        var text = Array("Basic ".utf8)
        Base64.encode(pair.span, to: &text)
        pair.wipe()
        return text
    }

    static func form(_ client: OAuthClient, _ secret: SecretBytes) -> [UInt8] {
        var text = Array("grant_type=client_credentials".utf8)
        func append(_ name: String, _ value: [UInt8]) {
            text.append(UInt8(ascii: "&"))
            text += encoded(Array(name.utf8))
            text.append(UInt8(ascii: "="))
            text += encoded(value)
        }
        if !client.scopes.isEmpty { append("scope", Array(client.scopes.joined(separator: " ").utf8)) }
        for parameter in client.parameters { append(parameter.name, Array(parameter.value.utf8)) }
        if client.secretIn == .body {
            append("client_id", Array(client.clientID.utf8))
            append("client_secret", [UInt8](copying: secret.bytes))
        }
        return text
    }

    /// application/x-www-form-urlencoded (WHATWG URL, section 5.2), with more encoded than there has to be: a space too, because
    /// some servers do not take `+` for one within Basic authentication.
    private static func encoded(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        for byte in bytes {
            if ASCII.isUnreserved(byte), byte != UInt8(ascii: "~") {
                text.append(byte)
            } else {
                text += [UInt8(ascii: "%"), ASCII.hexDigit(byte >> 4), ASCII.hexDigit(byte & 15)]
            }
        }
        return text
    }

    // MARK: The response

    override func task(_ task: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError? {
        if demand.isMet(by: trust.evaluation) { return nil }
        fault = Self.notHeld
        return SessionError(.cancelled, Self.notHeld.message)
    }

    static let notHeld = CredentialFault(
        .source,
        "the token server is not held to its pins, and does not get the client's secret"
    )

    override func task(_ task: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        status = response.status
        if (300..<400).contains(status) {
            fault = CredentialFault(
                .refused,
                "the token server answers with a redirect (\(status)), which is not followed"
            )
            return .cancel
        }
        if let index = response.fields.first(.contentEncoding),
            !response.fields.value(at: index).equalsIgnoringCase("identity")
        {
            fault = CredentialFault(
                .output,
                "the token server's response has a content coding, which was not asked for"
            )
            return .cancel
        }
        return .allow
    }

    override func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        guard data.count <= CredentialOutput.mostBytes - body.count else {
            fault = CredentialFault(
                .output,
                "the token server's response is longer than \(CredentialOutput.mostBytes >> 10) KB"
            )
            body.wipe()
            task.cancel()
            return .proceed
        }
        body.append(data)
        return .proceed
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        guard !isOver else { return }
        isOver = true
        completion(outcome(error))
    }

    private func outcome(_ error: SessionError?) -> Result<[UInt8], CredentialFault> {
        if let fault { return .failure(fault) }
        if let error {
            return .failure(Self.fault(error))
        }
        if status == 200 { return .success(body) }
        // RFC 6749, section 5.2. Only known codes are shown: a server may write anything there, the secret too.
        let code = CredentialOutput.errorCode(in: body).map { ": \($0)" } ?? ""
        return .failure(CredentialFault(.refused, "the token server refuses with the status \(status)\(code)"))
    }

    /// Details of what the server has answered may quote it, and it knows the secret by then.
    private static func fault(_ error: SessionError) -> CredentialFault {
        // The message is part of a sentence.
        let details = error.details.hasSuffix(".") ? String(error.details.dropLast()) : error.details
        return switch error.code {
        case .dnsTimeout, .connectTimeout:
            CredentialFault(.timeout, "the token server cannot be reached: \(details)")
        case .responseTimeout, .stalled:
            CredentialFault(.timeout, "the token server does not answer in time")
        case .responseInvalid, .responseTruncated, .responseTooLarge:
            CredentialFault(.output, "the token server's response cannot be read (\(error.code.rawValue))")
        default:
            CredentialFault(.source, "the token server cannot be asked: \(details)")
        }
    }
}
