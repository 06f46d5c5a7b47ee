// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore

/// A pin: SHA-256 over a whole DER-encoded SubjectPublicKeyInfo (RFC 5280, section 4.1), as in RFC 7469.
///
/// The 32 bytes are held inline, so that comparing costs no indirection.
public struct PublicKeyPin: Hashable, Sendable, CustomStringConvertible {
    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// The reason why a text is not a pin.
    public enum Fault: Error, Hashable, Sendable {
        /// Not base64 with padding (RFC 4648, section 4), or with stray bits in its last digit.
        case notBase64
        /// Base64 that does not decode to 32 bytes.
        case wrongLength(Int)
        /// The name before the slash is not `sha256`.
        case unknownDigest
    }

    /// The pin of a digest.
    ///
    /// - Parameter digest: 32 bytes.
    public init?(digest: [UInt8]) {
        guard digest.count == 32 else { return nil }
        func word(_ offset: Int) -> UInt64 {
            digest[offset..<(offset + 8)].reduce(0) { $0 << 8 | UInt64($1) }
        }
        words = (word(0), word(8), word(16), word(24))
    }

    /// Reads `sha256/BASE64` (OkHttp's and RFC 7469's spelling) or plain `BASE64`: 44 characters with padding.
    public init(_ text: String) throws(Fault) {
        var digits = Array(text.utf8)
        if digits.starts(with: Array("sha256/".utf8)) {
            digits.removeFirst(7)
        } else if digits.starts(with: Array("sha1/".utf8)) || digits.starts(with: Array("sha512/".utf8)) {
            throw .unknownDigest
        }
        guard let bytes = Base64.decode(digits) else { throw .notBase64 }
        guard let pin = PublicKeyPin(digest: bytes) else { throw .wrongLength(bytes.count) }
        self = pin
    }

    /// The pin of a DER-encoded SubjectPublicKeyInfo.
    public init(subjectPublicKeyInfo bytes: [UInt8]) {
        self = bytes.withUnsafeBytes { PublicKeyPin(hashing: $0) }
    }

    /// The pin of a SubjectPublicKeyInfo that `i2d_X509_PUBKEY` wrote.
    init(hashing bytes: UnsafeRawBufferPointer) {
        var digest: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        let done = withUnsafeMutableBytes(of: &digest) { out in
            EVP_Digest(bytes.baseAddress, bytes.count, out.baseAddress, nil, DigestAlgorithm.sha256, nil)
        }
        // SHA-256 of memory fails only when there is no memory left; a pin of zeros could then match by accident.
        precondition(done == 1, "EVP_Digest failed")
        words = (digest.0.bigEndian, digest.1.bigEndian, digest.2.bigEndian, digest.3.bigEndian)
    }

    /// A pin at random, which no key has.
    static func ofNoKey() -> PublicKeyPin {
        var random = SystemRandomNumberGenerator()
        return PublicKeyPin(words: (random.next(), random.next(), random.next(), random.next()))
    }

    private init(words: (UInt64, UInt64, UInt64, UInt64)) { self.words = words }

    /// The 32 bytes of the digest.
    public var digest: [UInt8] { Array(copying: bytes.span) }

    private var bytes: InlineArray<32, UInt8> {
        InlineArray { place in
            let word = place < 16 ? (place < 8 ? words.0 : words.1) : (place < 24 ? words.2 : words.3)
            return UInt8(truncatingIfNeeded: word &>> (56 &- 8 &* UInt64(place & 7)))
        }
    }

    /// `sha256/BASE64`.
    public var description: String { "sha256/" + base64 }

    /// The digest in base64, without a prefix: the value of `spki-sha256` in a pin file.
    public var base64: String {
        var text: [UInt8] = []
        text.reserveCapacity(44)
        appendBase64(to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Appends the 44 characters of `base64`.
    package func appendBase64(to text: inout [UInt8]) { Base64.encode(bytes.span, to: &text) }

    public static func == (a: PublicKeyPin, b: PublicKeyPin) -> Bool { a.words == b.words }

    public func hash(into hasher: inout Hasher) {
        // A part of the digest is a good hash already.
        hasher.combine(words.0)
    }
}
