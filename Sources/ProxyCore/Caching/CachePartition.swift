import HTTPCore
import IOCore
import ServerTrust

/// The part of a private cache that a request may use.
enum CachePartition {
    /// A cache that is not shared is one user's. Where nobody has to prove who it is, those of one credential are one user,
    /// and those without any: what is private to the one is not for the others.
    static func bytes(of user: [UInt8]?, _ fields: HTTPFields) -> [UInt8] {
        if let user { return user }
        guard fields.containsAny(of: credentials) else { return [] }
        var bytes: [UInt8] = []
        for index in 0..<fields.count where credentials.contains(fields.id(at: index)) {
            // Each with its length, so that no two lists read alike.
            bytes.append(fields.id(at: index) == .authorization ? 1 : 2)
            withUnsafeBytes(of: fields.value(at: index).count) { bytes += $0 }
            bytes.append(fields.value(at: index))
        }
        var partition = Array("credentials:".utf8)
        for byte in SecretDigest.sha256(bytes) {
            partition += [hexadecimal[Int(byte >> 4)], hexadecimal[Int(byte & 15)]]
        }
        return partition
    }

    private static let hexadecimal = Array("0123456789abcdef".utf8)

    private static let credentials: FieldNameSet = [.authorization, .cookie]
}
