// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust

/// The part of a cache that a request may use.
enum CachePartition {
    /// A shared cache has one part for all requests without a credential of `requests`.
    static func bytes(
        of user: [UInt8]?,
        _ fields: HeaderFields,
        _ credentials: [UInt8]?,
        isShared: Bool
    ) -> [UInt8] {
        if let credentials { return credentials + [0] + (user ?? []) }
        return isShared ? [] : bytes(of: user, fields)
    }

    /// The user whose stored responses a private cache may use. Without authentication the request's credentials stand
    /// for the user, and requests without credentials share a partition. No partition sees the private responses of
    /// another.
    static func bytes(of user: [UInt8]?, _ fields: HeaderFields) -> [UInt8] {
        if let user { return user }
        guard fields.containsAny(of: credentials) else { return [] }
        var bytes: [UInt8] = []
        for index in 0..<fields.count where credentials.contains(fields.id(at: index)) {
            // Each value is preceded by its length, so that different lists never give the same bytes.
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
