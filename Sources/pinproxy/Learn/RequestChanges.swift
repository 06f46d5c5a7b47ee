// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import ProxyCore
import StrictJSON

/// What another configuration would change for the requests of a log.
struct RequestChanges {
    struct Change: Hashable {
        var method: String
        var isUpgrade: Bool
        var url: String
        var user: String?
        var ambiguity: RequestAmbiguity?

        /// In the words of rules.
        var word: String { isUpgrade ? method == "GET" ? "UPGRADE" : "UPGRADE \(method)" : method }

        /// Fields that are read as those were that the log does not have.
        var fields: [(name: String, value: String)] {
            var fields = isUpgrade ? [("Connection", "Upgrade"), ("Upgrade", "websocket")] : []
            switch ambiguity {
            case .methodOverride: fields.append(("X-HTTP-Method-Override", "GET"))
            case .urlOverride: fields.append(("X-Original-URL", "/"))
            case .hostOverride: fields.append(("X-Forwarded-Host", "localhost"))
            case .destination: fields.append(("Destination", "/"))
            // The others are in the path.
            default: break
            }
            return fields
        }
    }

    private let snapshot: PolicySnapshot
    private var known: [Change: RequestCheck] = [:]
    private(set) var requests = 0
    /// Requests that would be denied and were sent, with their numbers.
    private(set) var denied: [Change: Int] = [:]
    /// Requests that would be sent and were denied by rules.
    private(set) var allowed: [Change: Int] = [:]
    private var foreign = 0
    private var surplus = 0

    /// As many bytes of different requests are told apart.
    private static let bound = 32 << 20
    private var bytes = 0
    /// As many are printed.
    private static let shown = 50

    init(under snapshot: PolicySnapshot) { self.snapshot = snapshot }

    mutating func add(_ line: [UInt8]) {
        switch LoggedRequest.read(line) {
        case .requests(let requests): for request in requests { add(request) }
        case .irrelevant: break
        case .foreign, .notJSON: foreign += 1
        }
    }

    private mutating func add(_ request: LoggedRequest) {
        requests += 1
        let url = request.url.prefix { $0 != "?" }
        let change = Change(
            method: request.method,
            isUpgrade: request.isUpgrade,
            url: String(url),
            user: request.user,
            ambiguity: request.ambiguity
        )
        guard let check = check(change, request) else { return }
        let wasDenied = request.error == Problem.Code.requestDenied.rawValue
        if !wasDenied, check.refusal?.code == .requestDenied { denied[change, default: 0] += 1 }
        if wasDenied, check.isAllowed { allowed[change, default: 0] += 1 }
    }

    private mutating func check(_ change: Change, _ request: LoggedRequest) -> RequestCheck? {
        if let known = known[change] { return known }
        guard bytes < Self.bound else {
            surplus += 1
            return nil
        }
        bytes += change.url.utf8.count + 256
        let check = RequestCheck(
            change.method,
            change.url,
            fields: change.fields,
            user: change.user,
            under: snapshot
        )
        known[change] = check
        return check
    }

    func text(_ lines: LogLines) -> String {
        var text = "\(requests) requests in \(lines.count) lines\n"
        if foreign > 0 { text += "\(foreign) of the lines are no lines of a task log: left out\n" }
        if surplus > 0 { text += "\(surplus) requests are left out: more different ones than are told apart\n" }
        if denied.isEmpty, allowed.isEmpty { return text + "nothing would change\n" }
        text += list(denied, "would be denied")
        text += list(allowed, "would be sent that were denied")
        return text
    }

    private func list(_ changes: [Change: Int], _ title: String) -> String {
        guard !changes.isEmpty else { return "" }
        var text = "\(changes.values.reduce(0, +)) \(title)\n"
        for (change, count) in sorted(changes).prefix(Self.shown) {
            let cause = known[change]?.refusal.map { ": \($0.details)" } ?? ""
            let by = change.user.map { " by \($0)" } ?? ""
            // The log may be anybody's.
            text += "  \(count) x " + "\(change.word) \(change.url)\(by)\(cause)".legible + "\n"
        }
        if changes.count > Self.shown { text += "  and \(changes.count - Self.shown) other ones\n" }
        return text
    }

    private func sorted(_ changes: [Change: Int]) -> [(key: Change, value: Int)] {
        changes.sorted { ($1.value, $0.key.url, $0.key.method) < ($0.value, $1.key.url, $1.key.method) }
    }

    var json: JSONLine {
        func list(_ changes: [Change: Int]) -> [String] {
            sorted(changes).map { change, count in
                var line = JSONLine()
                line.add("method", change.word)
                line.add("url", change.url)
                if let user = change.user { line.add("user", user) }
                line.add("count", count)
                if let rule = known[change]?.verdict?.rule { line.add("rule", rule.rule.id) }
                return line.object
            }
        }
        var line = JSONLine()
        line.add("requests", requests)
        line.add("wouldBeDenied", array: list(denied))
        line.add("wouldBeSent", array: list(allowed))
        return line
    }
}
