/// What a stored response was received under: a digest of the security policy of its host. It is not returned under
/// another one, so that nothing outlives the policy that let it in.
public struct PolicyDigest: Hashable, Sendable {
    /// Up to 32 bytes.
    package let bytes: [UInt8]

    /// - Parameter bytes: a digest that changes whenever the policy does, of at most 32 bytes; more are cut off.
    public init(_ bytes: [UInt8]) {
        self.bytes = Array(bytes.prefix(32))
    }

    /// Where there is no policy to remember.
    public static let none = PolicyDigest([])
}
