// SPDX-License-Identifier: Apache-2.0
/// The course of a connection attempt, as a value: what has become of dial, tunnel and handshake goes in, the next step comes out.
///
/// It holds no socket, dial or TLS: `ConnectionAttempt` reports what happens, and does what the value says. Whether a server is
/// accepted is not decided here.
struct AttemptCourse {
    /// The step behind a success.
    enum Step {
        case openTunnel
        case beginHandshake
        case acceptPlaintext
    }

    /// The step that has failed.
    enum Fault {
        /// The tunnel through an HTTP proxy.
        ///
        /// - Parameters:
        ///   - isAnswered: the proxy has sent something.
        ///   - isCut: it has broken the handshake off without a word.
        case tunnel(isAnswered: Bool, isCut: Bool)
        /// The handshake with the server.
        ///
        /// - Parameters:
        ///   - isEvaluated: the server has shown its certificates.
        ///   - isCut: it has broken the handshake off without a word.
        ///   - isOfferRefused: it takes nothing of what was offered.
        case handshake(isEvaluated: Bool, isCut: Bool, isOfferRefused: Bool)
        /// The dial, or a server that has made the handshake and is not accepted.
        case other
    }

    /// The step behind a failure.
    enum Recovery {
        /// Another address is being dialled. A server that was refused is never passed over for another one.
        case nextAddress
        /// The revocation lists for which alone the server, or the proxy, was refused are fetched; then all begins again.
        case awaitLists
        /// The attempt fails when it is known whether the server would take a wider profile.
        case explain
        case fail
        /// The attempt is over already.
        case nothing
    }

    let isTunnelled: Bool
    private let isSecure: Bool
    private let isTrial: Bool
    private let hasListSource: Bool
    private(set) var isOver = false
    /// Waiting for lists is not done twice.
    private var hasAwaitedLists = false

    /// - Parameters:
    ///   - isSecure: TLS to the origin.
    ///   - isTunnelled: an HTTP proxy is asked for a tunnel.
    ///   - isTrial: the attempt shows what the server takes, and ends then.
    ///   - hasListSource: whether revocation lists can be fetched.
    init(isSecure: Bool, isTunnelled: Bool, isTrial: Bool, hasListSource: Bool) {
        self.isSecure = isSecure
        self.isTunnelled = isTunnelled
        self.isTrial = isTrial
        self.hasListSource = hasListSource
    }

    func didConnect() -> Step { isTunnelled ? .openTunnel : tunnelDidOpen() }

    func tunnelDidOpen() -> Step { isSecure ? .beginHandshake : .acceptPlaintext }

    /// Whether the attempt waits for lists that are missing, and says nothing about the server before.
    func awaitsLists(_ areMissing: Bool) -> Bool { areMissing && hasListSource && !hasAwaitedLists && !isTrial }

    /// - Parameters:
    ///   - areListsMissing: they are the only reason against the server or the proxy.
    ///   - dialsNext: dials another address; false when there is none.
    ///   - beginsTrial: false when a trial for the endpoint was made before.
    mutating func didFail(
        _ fault: Fault,
        areListsMissing: Bool,
        dialsNext: () -> Bool,
        beginsTrial: () -> Bool
    ) -> Recovery {
        guard !isOver else { return .nothing }
        switch fault {
        case .tunnel(let isAnswered, let isCut):
            if !isAnswered || isCut, dialsNext() { return .nextAddress }
        case .handshake(let isEvaluated, let isCut, let isOfferRefused):
            if !isEvaluated, isCut, dialsNext() { return .nextAddress }
            if isOfferRefused, !isTrial, beginsTrial() { return .explain }
        case .other: break
        }
        if awaitsLists(areListsMissing) {
            hasAwaitedLists = true
            return .awaitLists
        }
        isOver = true
        return .fail
    }

    /// The connection is there, or nobody waits for it.
    ///
    /// - Returns: false when the attempt is over already.
    mutating func end() -> Bool {
        defer { isOver = true }
        return !isOver
    }
}
