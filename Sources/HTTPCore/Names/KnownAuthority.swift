// SPDX-License-Identifier: Apache-2.0
/// An authority whose host is in normal form as it was written, with what was found in it. A client asks the same hosts again and again,
/// and its text alone decides about it.
struct KnownAuthority: Sendable {
    var text: [UInt8] = []
    var port: UInt16?
    var rawHostLength = 0
    var kind: Host.Kind?
    var hostLength = 0

    /// Longer ones are not kept.
    static let longest = 128
}
