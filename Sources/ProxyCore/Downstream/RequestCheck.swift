// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
package import ProxyConfiguration
import ServerTrust
import SessionCore

/// What would become of a request under a policy, found as the proxy finds it: for `pinproxy check request`.
package struct RequestCheck {
    /// One rule about the host, and what it says.
    package struct Step: Sendable {
        package var rule: RequestRule
        package var cause: String
    }

    /// The URL as it goes out; host and port of a CONNECT.
    package let url: String
    /// What the connection to the server is held to.
    package let server: String
    /// Why nothing is sent: by `access`, `connect` or the rules; nil when the request is allowed.
    package let refusal: Problem?
    /// What the rules say; nil without `requests`, and where the request is refused before.
    package let verdict: RequestVerdict?
    /// The rules about the host up to the one that decides.
    package let steps: [Step]

    package var isAllowed: Bool { refusal == nil }

    /// Checks a request as a client would send it to a forward listener.
    ///
    /// - Parameters:
    ///   - fields: names and values.
    ///   - user: the user's name in the log; nil for a client of whom no user is known.
    package init(
        _ method: String,
        _ url: String,
        fields: [(name: String, value: String)] = [],
        user: String?,
        under snapshot: PolicySnapshot
    ) {
        guard method == "CONNECT" || url.contains("://") else {
            self.init(refusal: Self.noWholeURL)
            return
        }
        var text = "\(method) \(url) HTTP/1.1\r\nHost: placeholder\r\n"
        for field in fields { text += "\(field.name): \(field.value)\r\n" }
        func has(_ name: String) -> Bool { fields.contains { $0.name.lowercased() == name } }
        // Without it Upgrade has no meaning, and nobody means that.
        if has("upgrade"), !has("connection") { text += "Connection: Upgrade\r\n" }
        let bytes = Array((text + "\r\n").utf8)
        var parser = RequestParser(limits: HeadLimits(targetBytes: 65_536))
        var head = RequestHead()
        switch parser.parse(bytes.span, into: &head).outcome {
        case .complete: self.init(head, under: snapshot, user: user)
        case .failed(let fault): self.init(refusal: Problem(fault))
        case .needMore: self.init(refusal: Problem(.requestInvalid, "This is not one request."))
        }
    }

    private init(_ head: borrowing RequestHead, under snapshot: PolicySnapshot, user: String?) {
        let router = Router(snapshot: snapshot)
        let user = user.map { Array($0.utf8) }
        guard let host = head.host, let port = head.port else {
            self.init(refusal: Self.noWholeURL)
            return
        }
        let isConnect = head.method == .connect
        let route =
            isConnect
            ? router.connectRoute(host: host, port: port, allowHosts: .any)
            : router.route(isHTTPS: head.scheme == .https, host: host, port: port, allowHosts: .any)
        let place = String(decoding: route.logPrefix, as: UTF8.self)
        let url = isConnect ? place : place + String(decoding: head.copyOfTarget(), as: UTF8.self)
        let server: String
        switch route.destination {
        case .refused(let problem):
            self.init(url: url, refusal: problem)
            return
        case .origin(let endpoint), .intercept(let endpoint): server = Self.text(endpoint)
        case .tunnel: server = "a tunnel: what is in it is not seen, and the client judges the server"
        case .requests: server = "requests of plain http inside the CONNECT, each judged by itself"
        }
        guard let rules = route.rules else {
            self.init(url: url, server: server)
            return
        }
        let isUpgrade = UpgradeOffer(head) != nil
        let verdict: RequestVerdict
        let subject: RuleExplanation.Subject
        switch route.destination {
        case .tunnel: (verdict, subject) = (rules.judgeTunnel(user: user), .tunnel)
        case .intercept, .requests: (verdict, subject) = (rules.judgeInterception(user: user), .interception)
        default:
            subject = .request
            verdict = rules.judge(
                head.method,
                isUpgrade: isUpgrade,
                target: head.target,
                fields: head.fields,
                user: user
            )
        }
        let judged = rules.origin
        let steps = RuleExplanation.steps(
            subject,
            head,
            isUpgrade: isUpgrade,
            to: judged.host,
            port: judged.port,
            defaultPort: judged.defaultPort,
            user: user,
            under: rules.all
        )
        self.init(
            url: url,
            server: server,
            refusal: verdict.decision == .denied ? Problem(verdict, isForOperator: true) : nil,
            verdict: verdict,
            steps: steps.map { Step(rule: $0.rule, cause: $0.cause) }
        )
    }

    private init(
        url: String = "",
        server: String = "",
        refusal: Problem? = nil,
        verdict: RequestVerdict? = nil,
        steps: [Step] = []
    ) {
        self.url = url
        self.server = server
        self.refusal = refusal
        self.verdict = verdict
        self.steps = steps
    }

    private static let noWholeURL = Problem(
        .requestInvalid,
        "The request names no host. Write a whole URL, as in https://api.example.com/v1, or HOST:PORT for a CONNECT."
    )

    private static func text(_ endpoint: Endpoint) -> String {
        guard endpoint.scheme == .https else { return "without TLS" }
        guard endpoint.policy.hasPins else { return "TLS; chain and host are checked, no pin applies" }
        return "TLS; pins in mode \(endpoint.policy.pinningMode.rawValue)"
    }
}
