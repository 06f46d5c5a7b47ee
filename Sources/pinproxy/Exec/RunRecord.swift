// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust

/// What a program has asked for during a run of `exec --report`, and what became of it, from the lines of the task log. Memory is
/// bounded, whatever the program asks for.
final class RunRecord: Sendable {
    /// What a request met with, other than a response of its origin.
    struct Objection: Hashable {
        enum Kind {
            case denied
            /// It was sent, because rules are only reported.
            case wouldBeDenied
            case failed
        }

        var kind: Kind
        /// The rule, or the code of the error.
        var cause: String
    }

    struct Content {
        fileprivate(set) var servers: SeenServers
        fileprivate(set) var learned = SeenRequests()
        fileprivate(set) var asked = RequestGroups()
        fileprivate(set) var objections: [Objection: RequestGroups] = [:]
        /// The details of each failure, as it was first seen.
        fileprivate(set) var details: [Objection: String] = [:]
        /// Hosts and ports of tunnels.
        fileprivate(set) var tunnels: Set<String> = []
        /// Requests that were not told apart.
        fileprivate(set) var surplus = 0
        /// What is left of the memory for the requests.
        private var budget = 32 << 20
        private static let tunnelBound = 10_000

        fileprivate init(besides pinned: PinnedDomains) { servers = SeenServers(besides: pinned) }
    }

    private let state: Locked<Content>

    /// - Parameter pinned: the pins at the start.
    init(besides pinned: PinnedDomains) { state = Locked(Content(besides: pinned)) }

    var content: Content { state.withLock { $0 } }

    /// Takes whole lines; called on the log's thread, and for some moments of a reload on two of them.
    func add(_ lines: UnsafeRawBufferPointer) {
        state.withLock { content in
            for line in lines.split(separator: UInt8(ascii: "\n")) { content.add(Array(line)) }
        }
    }
}

extension RunRecord.Content {
    fileprivate mutating func add(_ line: [UInt8]) {
        servers.add(line)
        let requests = LoggedRequest.read(line)
        learned.add(requests)
        guard case .requests(let hops) = requests, let last = hops.last else { return }
        for hop in hops {
            // A tunnel that was cut off, as by the end of the run, has carried bytes all the same.
            if hop.isConnect, hop.isTunnel, hop.status == 200, tunnels.count < Self.tunnelBound {
                tunnels.insert(hop.url)
            }
            // The requests in an intercepted CONNECT have lines of their own.
            if hop.isConnect, hop.error == nil, !hop.isTunnel { continue }
            // Programs that send their token when it is asked for come again.
            guard hop.error != Problem.Code.authenticationRequired.rawValue else { continue }
            if !Self.count(hop, in: &asked, within: &budget) { surplus += 1 }
        }
        guard let objection = RunRecord.Objection(last) else { return }
        // The table is as long as there are rules and codes.
        var groups = objections.removeValue(forKey: objection) ?? RequestGroups()
        _ = Self.count(last, in: &groups, within: &budget)
        objections[objection] = groups
        if details[objection] == nil { details[objection] = last.errorDetails ?? "" }
    }

    private static func count(
        _ request: LoggedRequest,
        in groups: inout RequestGroups,
        within budget: inout Int
    ) -> Bool {
        guard !request.isConnect, let url = AbsoluteURL(request.url) else {
            return groups.add(request.method, request.url, target: [], within: &budget)
        }
        let method = request.isUpgrade && request.method == "GET" ? "UPGRADE" : request.method
        return groups.add(method, url.origin.description, target: url.target, within: &budget)
    }
}

extension RunRecord.Objection {
    /// Nil where there is none, and where the program has given up itself.
    init?(_ request: LoggedRequest) {
        let rule = request.rule.map { "rule \"\($0)\"" } ?? "no rule of requests matches"
        let ruling = rule + (request.ambiguity.map { ", can be read in two ways: \($0.rawValue)" } ?? "")
        guard let error = request.error else {
            guard request.wouldDeny else { return nil }
            self.init(kind: .wouldBeDenied, cause: ruling)
            return
        }
        switch Problem.Code(rawValue: error) {
        case .requestDenied where request.rule != nil || request.ambiguity != nil:
            self.init(kind: .denied, cause: ruling)
        case .requestDenied, .hostDenied, .unpinnedDenied, .connectDenied, .addressDenied, .redirectDenied,
            .responseDenied,
            .authenticationRequired, .misdirectedRequest, .pinMismatch, .pinSetExpired, .pinForbidden:
            self.init(kind: .denied, cause: error)
        case .clientClosed, .cancelled: return nil
        default: self.init(kind: .failed, cause: error)
        }
    }
}
