// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// Digests of secrets, stored instead of a token or a password.
package enum SecretDigest {
    /// SHA-256.
    package static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        SHA256(bytes, bytes.count, &digest)
        return digest
    }

    /// HMAC-SHA-256 (RFC 2104) with a key that is not empty.
    package static func hmac(_ message: borrowing Span<UInt8>, key: borrowing Span<UInt8>) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        var count: UInt32 = 0
        let made = key.withUnsafeBufferPointer { key in
            message.withUnsafeBufferPointer { message in
                HMAC(
                    EVP_sha256(),
                    key.baseAddress,
                    Int32(key.count),
                    message.baseAddress,
                    message.count,
                    &digest,
                    &count
                )
            }
        }
        precondition(made != nil && count == 32, "HMAC-SHA-256 failed")
        return digest
    }

    /// Whether both are the same, in a time that depends only on their lengths.
    package static func areEqual(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        one.count == other.count && CRYPTO_memcmp(one, other, one.count) == 0
    }
}

/// A random key of this process. It never leaves the process, so that digests made with it are useless outside
/// (HMAC-SHA-256, RFC 2104).
package struct DigestKey: Sendable {
    private let key: [UInt8]

    package init() {
        var key = [UInt8](repeating: 0, count: 32)
        // Without random numbers TLS does not work either.
        precondition(RAND_bytes(&key, Int32(key.count)) == 1, "the system gives no random numbers")
        self.key = key
    }

    package func digest(_ message: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        var count: UInt32 = 0
        let made = HMAC(EVP_sha256(), key, Int32(key.count), message, message.count, &digest, &count)
        precondition(made != nil && count == 32, "HMAC-SHA-256 failed")
        return digest
    }
}
