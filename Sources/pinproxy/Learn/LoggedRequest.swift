// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import ProxyCore
import ServerTrust
import StrictJSON

/// One request of a task log: what `requests learn` and `check request --log` need of its line.
struct LoggedRequest {
    enum Line {
        /// The client's request, and those of the redirects that were followed.
        case requests([LoggedRequest])
        case irrelevant
        case foreign
        case notJSON
    }

    var method: String
    /// Absolute; host and port of a CONNECT.
    var url: String
    var user: String?
    /// The status of the origin's response; nil without one.
    var originStatus: Int?
    /// The status that the client got.
    var status: Int?
    var error: String?
    var errorDetails: String?
    /// The rule that decided, and whether the request was sent although it, or the policy, would deny it.
    var rule: String?
    var wouldDeny = false
    var ambiguity: RequestAmbiguity?
    /// Whether it offered another protocol.
    private var offersUpgrade = false
    var isUpgrade: Bool { offersUpgrade || originStatus == 101 }
    var isConnect: Bool { method == "CONNECT" }
    /// Whether bytes were relayed that nobody looked at: the proxy has made no TLS of its own, and something came back.
    private(set) var isTunnel = false

    private init(method: String, url: String) {
        self.method = method
        self.url = url
    }

    static func read(_ line: [UInt8]) -> Line {
        let document = JSONDocument(bytes: line, file: "")
        guard document.issues.isEmpty, let root = document.root else { return .notJSON }
        guard let members = root.members, let event = members["event"]?.string else { return .foreign }
        guard event == "task", members["client"]?.string != "cache" else { return .irrelevant }
        guard let method = members["method"]?.string, let url = members["url"]?.string else { return .irrelevant }
        var first = LoggedRequest(method: method, url: url)
        first.user = members["user"]?.string
        first.status = members["status"]?.integer
        first.error = members["error"]?.string
        first.errorDetails = members["errorDetails"]?.string
        first.rule = members["rule"]?.string
        if case .bool(true)? = members["wouldDeny"]?.content { first.wouldDeny = true }
        first.ambiguity = members["ambiguity"]?.string.flatMap(RequestAmbiguity.init(rawValue:))
        if case .bool(true)? = members["upgrade"]?.content { first.offersUpgrade = true }
        first.isTunnel = members["pinning"] == nil && (members["bytesReceived"]?.integer ?? 0) > 0
        guard case .array(let transactions)? = members["transactions"]?.content, !transactions.isEmpty else {
            return .requests([first])
        }
        var requests: [LoggedRequest] = []
        var current = first
        for transaction in transactions {
            guard let members = transaction.members, let url = members["url"]?.string else { return .foreign }
            current.url = current.isConnect ? first.url : url
            current.originStatus = members["status"]?.integer
            requests.append(current)
            // RFC 9110, section 15.4: which redirects change the method.
            switch current.originStatus {
            case 303? where current.method != "HEAD": current.method = "GET"
            case 301? where current.method == "POST", 302? where current.method == "POST": current.method = "GET"
            default: break
            }
        }
        return .requests(requests)
    }

    /// Whether the origin has responded, and has not done what was asked for.
    var isRefusedByOrigin: Bool { originStatus.map { $0 >= 400 } ?? false }

    /// Whether it has read what was not there.
    var isOfNothing: Bool {
        (originStatus == 404 || originStatus == 410) && (method == "GET" || method == "HEAD") && !isUpgrade
    }

    /// What a rule is learned from; nil for a request that no server has responded to, and one whose URL is none.
    func sighting() -> RequestLearner.Sighting? {
        if isConnect {
            guard isTunnel, error == nil, status == 200, let address = try? ServerAddress(url) else { return nil }
            return .init(host: address.host, port: address.port == 443 ? nil : address.port, method: nil, target: [])
        }
        guard originStatus != nil, let parsed = AbsoluteURL(url) else { return nil }
        let origin = parsed.origin
        let port = origin.port == origin.scheme.defaultPort ? nil : origin.port
        return .init(host: origin.host, port: port, method: method, isUpgrade: isUpgrade, target: parsed.target)
    }
}

extension DocumentValue {
    fileprivate var string: String? {
        if case .string(let text) = content { text } else { nil }
    }

    fileprivate var integer: Int? {
        if case .number(let text) = content { Int(text) } else { nil }
    }

    fileprivate var members: [String: DocumentValue]? {
        guard case .object(let members) = content else { return nil }
        return Dictionary(members.map { ($0.name, $0.value) }) { first, _ in first }
    }
}
