// SPDX-License-Identifier: Apache-2.0
/// The client's `Expect: 100-continue` (RFC 9110, section 10.1.1): whether it waits for 100 (Continue) before it sends its
/// body, and whether the origin or the proxy decides about that.
///
/// A value: the exchange calls it for each event, and sends 100 (Continue) when it says so.
struct ContinueExpectation {
    /// The client waits for 100 (Continue).
    private var isPending = false
    private var wasSent = false
    /// The field was sent to the origin, which decides whether it wants the body. HTTP/2 servers hardly ever send 100
    /// (Continue), so the proxy sends it then.
    private(set) var isForwarded = false

    /// Begins a request, or restarts it: a client gets 100 (Continue) only once.
    ///
    /// - Parameters:
    ///   - isExpected: whether the request has the field.
    ///   - bodyHasBegun: whether the client has sent bytes of the body, and so does not wait.
    ///   - originDecides: whether the origin can be expected to send 100 (Continue).
    mutating func begin(isExpected: Bool, bodyHasBegun: Bool, originDecides: Bool) {
        isPending = isExpected && !wasSent
        isForwarded = isPending && !bodyHasBegun && originDecides
    }

    /// Continues with another origin, after a redirect.
    ///
    /// - Parameter keepsBody: whether the redirected request has the body.
    mutating func follow(keepsBody: Bool, bodyHasBegun: Bool, originDecides: Bool) {
        if !keepsBody { isPending = false }
        isForwarded = isPending && !bodyHasBegun && originDecides
    }

    /// Whether the client waits for 100 (Continue).
    func holdsClientBack(bodyHasBegun: Bool) -> Bool { isPending && !bodyHasBegun }

    /// The body is wanted.
    ///
    /// - Returns: whether 100 (Continue) has to be sent to the client now.
    mutating func bodyIsWanted(bodyHasBegun: Bool) -> Bool {
        guard isPending, !bodyHasBegun else { return false }
        isPending = false
        wasSent = true
        return true
    }
}
