import ProxyCore

/// The requests of a log, as `RequestLearner` sees them, and how many were left out.
struct SeenRequests {
    private(set) var learner = RequestLearner()
    private var requests = 0
    private var unanswered = 0
    private var ambiguous: [RequestAmbiguity: Int] = [:]
    private var literalStars = 0
    private var surplus = 0
    private var foreign = 0

    mutating func add(_ line: [UInt8]) {
        switch LoggedRequest.read(line) {
        case .requests(let requests): for request in requests { add(request) }
        case .irrelevant: break
        case .foreign, .notJSON: foreign += 1
        }
    }

    private mutating func add(_ request: LoggedRequest) {
        requests += 1
        guard let (host, port, method, target) = request.sighting() else {
            unanswered += 1
            return
        }
        switch learner.add(RequestLearner.Sighting(host: host, port: port, method: method, target: target)) {
        case .learned: break
        case .ambiguous(let cause): ambiguous[cause, default: 0] += 1
        case .literalStar: literalStars += 1
        case .surplus: surplus += 1
        }
    }

    func summary(_ lines: LogLines) -> String {
        var text = "read \(lines.count) lines: \(requests) requests\n"
        let left = [
            (unanswered, "no server has responded to"), (literalStars, "have a star in their path"),
            (surplus, "are to more hosts and paths than are told apart"),
        ]
        for (count, what) in left where count > 0 { text += "\(count) of them \(what): left out\n" }
        for (cause, count) in ambiguous.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            text += "\(count) of them can be read in two ways (\(cause.rawValue)): left out\n"
        }
        if foreign > 0 { text += "\(foreign) of the lines are no lines of a task log: left out\n" }
        return text
    }
}
