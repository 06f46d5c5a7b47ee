// SPDX-License-Identifier: Apache-2.0
import ProxyConfiguration
import ProxyCore

/// The requests of a log, as `RequestLearner` sees them, and how many were left out.
struct SeenRequests {
    private(set) var learner = RequestLearner()
    private var requests = 0
    private var unanswered = 0
    private var ambiguous: [RequestAmbiguity: Int] = [:]
    private var literalStars = 0
    private var refused = 0
    private var unwritablePaths = 0
    private var unusualMethods = 0
    private var surplus = 0
    private var foreign = 0

    mutating func add(_ line: [UInt8]) { add(LoggedRequest.read(line)) }

    mutating func add(_ line: LoggedRequest.Line) {
        switch line {
        case .requests(let requests): for request in requests { add(request) }
        case .irrelevant: break
        case .foreign, .notJSON: foreign += 1
        }
    }

    private mutating func add(_ request: LoggedRequest) {
        // The requests in an intercepted CONNECT have lines of their own.
        if request.isConnect, request.error == nil, !request.isTunnel { return }
        requests += 1
        guard var sighting = request.sighting() else {
            unanswered += 1
            return
        }
        // Of a tunnel nothing more is to be seen.
        if let cause = request.ambiguity, cause != .tunnel {
            ambiguous[cause, default: 0] += 1
            return
        }
        // What is not allowed is tried out by whoever wants wider rules. Clients of repositories look for files that are optional,
        // and take another refusal than 404 for an error.
        if request.isRefusedByOrigin {
            guard request.isOfNothing else {
                refused += 1
                return
            }
            sighting.isAbsent = true
        }
        switch learner.add(sighting) {
        case .learned: break
        case .ambiguous(let cause): ambiguous[cause, default: 0] += 1
        case .literalStar: literalStars += 1
        case .unwritablePath: unwritablePaths += 1
        case .unusualMethod: unusualMethods += 1
        case .surplus: surplus += 1
        }
    }

    func summary(_ lines: LogLines) -> String {
        let text = "read \(lines.count) lines: \(requests) requests\n" + leftOut.map { "\($0): left out\n" }.joined()
        return foreign > 0 ? text + "\(foreign) of the lines are no lines of a task log: left out\n" : text
    }

    /// The requests of which nothing is learned.
    var leftOut: [String] {
        let left = [
            (unanswered, "no server has responded to"), (refused, "a server has refused (4xx, 5xx)"),
            (literalStars, "have a star in their path"),
            (unwritablePaths, "have a character in their path that no rule has"),
            (unusualMethods, "have a method that no rule names"),
            (surplus, "are to more hosts and paths than are told apart"),
        ]
        return left.filter { $0.0 > 0 }.map { "\($0.0) of them \($0.1)" }
            + ambiguous.sorted { $0.key.rawValue < $1.key.rawValue }.map {
                "\($0.value) of them can be read in two ways (\($0.key.rawValue))"
            }
    }
}
