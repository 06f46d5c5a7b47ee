import HTTPCore

/// What a request to the admin listener asks for, judged by its head alone.
enum AdminRequest {
    case live
    case ready
    case metrics
    case refused(Problem)

    /// - Parameter isOwnName: whether the request names this listener in Host.
    init(_ head: borrowing RequestHead, isOwnName: Bool) {
        guard isOwnName else {
            // Invariant 16: a page of the web must not make a browser read this by a name of its own.
            self = .refused(
                Problem(
                    .misdirectedRequest,
                    "The admin listener answers to its own address, localhost and its allowedHosts; the request's Host is another. "
                        + "Add the name to admin.allowedHosts if it may be used."
                )
            )
            return
        }
        guard head.method == .get || head.method == .head else {
            self = .refused(Self.methodRefusal)
            return
        }
        guard !head.framing.hasBody else {
            self = .refused(Problem(.requestInvalid, "A request of the admin listener has no body. Send none."))
            return
        }
        let target = head.target
        let path = target.extracting(0..<(target.firstIndex(of: UInt8(ascii: "?")) ?? target.count))
        if path.equals("/live") {
            self = .live
        } else if path.equals("/ready") {
            self = .ready
        } else if path.equals("/metrics") {
            self = .metrics
        } else {
            self = .refused(
                Problem(
                    .requestInvalid,
                    status: 404,
                    "The admin listener has /live, /ready and /metrics, and nothing else."
                )
            )
        }
    }

    /// What the parser refused.
    init(_ fault: RequestFault) {
        self = .refused(fault == .methodTrace ? Self.methodRefusal : Problem(fault))
    }

    private static var methodRefusal: Problem {
        Problem(.requestInvalid, status: 405, "The admin listener answers GET and HEAD.", allow: "GET, HEAD")
    }
}
