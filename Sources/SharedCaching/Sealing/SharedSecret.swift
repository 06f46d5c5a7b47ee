// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust

/// The owner's secret and prefix: the names in Redis, and the sealing of what is stored under them.
package struct SharedSecret: Sendable {
    package static let shortest = 32

    let prefix: [UInt8]
    private let namesKey: [UInt8]
    private let sealingKey: [UInt8]

    /// - Returns: nil when the secret has fewer than 32 bytes.
    package init?(_ secret: [UInt8], prefix: [UInt8]) {
        guard secret.count >= Self.shortest else { return nil }
        self.prefix = prefix
        namesKey = Self.derivedKey(secret, "pinproxy shared cache: names")
        sealingKey = Self.derivedKey(secret, "pinproxy shared cache: sealing")
    }

    /// HKDF-SHA-256 without salt, for one key of 32 bytes (RFC 5869).
    static func derivedKey(_ secret: [UInt8], _ purpose: StaticString) -> [UInt8] {
        let salt = [UInt8](repeating: 0, count: 32)
        let extracted = SecretDigest.hmac(secret.span, key: salt.span)
        var message = [UInt8](copying: purpose.bytes)
        message.append(1)
        return SecretDigest.hmac(message.span, key: extracted.span)
    }

    /// HMAC-SHA-256 with the key for names.
    func digest(_ message: [UInt8]) -> [UInt8] { SecretDigest.hmac(message.span, key: namesKey.span) }

    // MARK: - Sealing

    /// The first byte of what is sealed; the salt, the nonce, the ciphertext and the tag follow.
    private static let version: UInt8 = 1
    private static let saltLength = 16
    private static let start = 1 + saltLength + AES256GCM.nonceLength
    /// The number of bytes that sealing adds.
    static let overhead = start + AES256GCM.tagLength

    /// - Parameters:
    ///   - role: what it is; a record of another role does not open.
    ///   - place: what it is bound to, as key and field.
    func seal(_ bytes: [UInt8], _ role: SharedRole, at place: [[UInt8]]) -> [UInt8] {
        seal(StoredBytes(bytes), 0..<bytes.count, role, at: place)
    }

    /// The same for a range of a body, without a copy of it.
    func seal(_ bytes: StoredBytes, _ range: Range<Int>, _ role: SharedRole, at place: [[UInt8]]) -> [UInt8] {
        let count = Self.overhead + range.count
        return [UInt8](unsafeUninitializedCapacity: count) { room, filled in
            guard let output = room.baseAddress else { preconditionFailure("an array without memory") }
            output[0] = Self.version
            // Without random numbers TLS does not work either.
            precondition(RAND_bytes(output + 1, Int32(Self.start - 1)) == 1, "the system gives no random numbers")
            let head = [UInt8](UnsafeBufferPointer(start: output, count: Self.start))
            let cipher = cipher(.encrypting, head, role, place)
            var position = range.lowerBound
            while position < range.upperBound {
                let piece = bytes.contiguous(position..<range.upperBound)
                cipher.update(bytes.span(piece), to: output + Self.start + (position - range.lowerBound))
                position = piece.upperBound
            }
            cipher.writeTag(to: output + (count - AES256GCM.tagLength))
            filled = count
        }
    }

    /// - Returns: nil when the bytes were not sealed with this secret for this role and place.
    func open(_ sealed: [UInt8], _ role: SharedRole, at place: [[UInt8]]) -> [UInt8]? {
        let count = sealed.count - Self.overhead
        guard (0...AES256GCM.longest).contains(count), sealed[0] == Self.version else { return nil }
        let cipher = cipher(.decrypting, Array(sealed[..<Self.start]), role, place)
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { room, filled in
            if let output = room.baseAddress {
                cipher.update(sealed.span.extracting(Self.start..<(Self.start + count)), to: output)
            }
            filled = count
        }
        return cipher.hasTag(Array(sealed[(Self.start + count)...])) ? bytes : nil
    }

    /// Each record has a key of its own, which its salt makes, so that random nonces are not repeated under one key.
    ///
    /// - Parameter head: version, salt and nonce.
    private func cipher(
        _ direction: AES256GCM.Direction,
        _ head: [UInt8],
        _ role: SharedRole,
        _ place: [[UInt8]]
    ) -> AES256GCM {
        let message = [role.rawValue] + head[1...Self.saltLength]
        var data = HeadCoding.Writer()
        data.bytes = [Self.version, role.rawValue]
        for item in place { data.run(item.span) }
        return AES256GCM(
            direction,
            key: SecretDigest.hmac(message.span, key: sealingKey.span),
            nonce: head.span.extracting((1 + Self.saltLength)...),
            authenticating: data.bytes
        )
    }
}

/// What a sealed record is.
enum SharedRole: UInt8 { case record = 1, chunk = 2, purge = 3 }
