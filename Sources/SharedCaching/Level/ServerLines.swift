// SPDX-License-Identifier: Apache-2.0
/// Decides whether a change of a server gets a line in the log: one that changes with each reply does not fill it.
struct ServerLines {
    static let atMost = 4
    /// So many lines at most in this time, in seconds.
    static let span: Int64 = 10

    private var count = 0
    private var since: Int64 = 0

    /// - Parameter now: in seconds. The clock may have been set back.
    mutating func allows(now: Int64) -> Bool {
        if now - since >= Self.span || now < since { (count, since) = (0, now) }
        count += 1
        return count <= Self.atMost
    }
}
