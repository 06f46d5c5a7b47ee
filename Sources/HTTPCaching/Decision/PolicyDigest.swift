// SPDX-License-Identifier: Apache-2.0
/// A digest of the security policy under which a response was received. The response is not used under another policy,
/// so that it does not outlive the policy that accepted its server.
public struct PolicyDigest: Hashable, Sendable {
    /// Up to 32 bytes.
    package let bytes: [UInt8]

    /// - Parameter bytes: a digest that changes whenever the policy does, of at most 32 bytes; more are cut off.
    public init(_ bytes: [UInt8]) {
        self.bytes = bytes.count <= 32 ? bytes : Array(bytes.prefix(32))
    }

    /// The digest for responses without a policy.
    public static let none = PolicyDigest([])
}
