// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims

/// The Certificate message of a peer (RFC 5246, section 7.4.2; RFC 8446, section 4.4.2), read before OpenSSL decodes it.
///
/// OpenSSL decodes every certificate, and with it every key, as soon as it reads the message: before the chain is verified, and
/// for certificates that belong to no chain. With some forms of keys that takes seconds a certificate. They are refused here,
/// and so are more and larger certificates than a chain has. The message is walked once; nothing of it is kept.
package enum CertificateMessage {
    /// The reason to refuse a message. The numbers are those of `pinproxy_certificate_faults`, which has the words.
    package enum Fault: Int32, CaseIterable {
        case unreadable = 1
        case tooManyCertificates
        case tooLarge
        case explicitCurve
        case largeRSAKey
        case largeRSAExponent
        case unsupportedKey
    }

    /// The number of certificates that are read, the peer's own among them.
    static let mostCertificates = 16
    /// The size of the message, in bytes.
    package static let mostBytes = 64 << 10
    /// The size of an RSA modulus, in bits.
    static let mostRSABits = 8192

    /// The reason to refuse the message; nil to let OpenSSL decode it.
    ///
    /// - Parameters:
    ///   - body: the message without its header of four bytes.
    ///   - isTLS13: the version decides about the form.
    package static func fault(in body: borrowing Span<UInt8>, isTLS13: Bool) -> Fault? {
        guard body.count <= mostBytes else { return .tooLarge }
        var reader = DERReader(body)
        // The request's context, which is empty but after the handshake.
        if isTLS13 { guard reader.skip(lengthOf: 1) else { return .unreadable } }
        guard let list = reader.vector(lengthOf: 3), reader.isAtEnd else { return .unreadable }
        var rest = DERReader(body, list)
        var count = 0
        while !rest.isAtEnd {
            count += 1
            guard count <= mostCertificates else { return .tooManyCertificates }
            guard let certificate = rest.vector(lengthOf: 3) else { return .unreadable }
            if isTLS13 { guard rest.skip(lengthOf: 2) else { return .unreadable } }
            if let fault = fault(inCertificate: body, certificate) { return fault }
        }
        return nil
    }

    /// The reason to refuse an OCSP response (RFC 6960, section 4.2.1) for the responders' certificates in it, which OpenSSL
    /// decodes with the response.
    static func fault(inStaple bytes: borrowing Span<UInt8>) -> Fault? {
        var whole = DERReader(bytes)
        guard let response = whole.element(.sequence), whole.isAtEnd else { return .unreadable }
        var outer = DERReader(bytes, response)
        guard outer.element(.enumerated) != nil else { return .unreadable }
        // One without success has nothing else.
        if outer.isAtEnd { return nil }
        guard let tagged = outer.element(.explicit0), outer.isAtEnd else { return .unreadable }
        var inner = DERReader(bytes, tagged)
        guard let typed = inner.element(.sequence), inner.isAtEnd else { return .unreadable }
        var type = DERReader(bytes, typed)
        guard type.element(.objectIdentifier) != nil, let octets = type.element(.octetString), type.isAtEnd else {
            return .unreadable
        }
        var encoded = DERReader(bytes, octets)
        guard let basic = encoded.element(.sequence), encoded.isAtEnd else { return .unreadable }
        var parts = DERReader(bytes, basic)
        guard parts.element(.sequence) != nil, parts.element(.sequence) != nil, parts.element(.bitString) != nil else {
            return .unreadable
        }
        if parts.isAtEnd { return nil }
        guard let optional = parts.element(.explicit0), parts.isAtEnd else { return .unreadable }
        var list = DERReader(bytes, optional)
        guard let certificates = list.element(.sequence), list.isAtEnd else { return .unreadable }
        var rest = DERReader(bytes, certificates)
        var count = 0
        while !rest.isAtEnd {
            count += 1
            guard count <= mostCertificates else { return .tooManyCertificates }
            guard let certificate = rest.whole(.sequence) else { return .unreadable }
            if let fault = fault(inCertificate: bytes, certificate) { return fault }
        }
        return nil
    }

    /// - Parameter range: the certificate's place in the message (RFC 5280, section 4.1).
    private static func fault(inCertificate bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> Fault? {
        var outer = DERReader(bytes, range)
        guard let certificate = outer.element(.sequence), outer.isAtEnd else { return .unreadable }
        var certificateReader = DERReader(bytes, certificate)
        guard let contents = certificateReader.element(.sequence) else { return .unreadable }
        var fields = DERReader(bytes, contents)
        if fields.nextTag == 0xA0 { guard fields.element(.explicit0) != nil else { return .unreadable } }
        // Serial number, signature, issuer, validity, subject.
        for tag in [.integer, .sequence, .sequence, .sequence, .sequence] as [DERReader.Tag] {
            guard fields.element(tag) != nil else { return .unreadable }
        }
        guard let key = fields.element(.sequence) else { return .unreadable }
        return fault(inKey: bytes, key)
    }

    /// - Parameter range: the contents of the SubjectPublicKeyInfo.
    private static func fault(inKey bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> Fault? {
        var reader = DERReader(bytes, range)
        guard let algorithm = reader.element(.sequence), let key = reader.element(.bitString), reader.isAtEnd else {
            return .unreadable
        }
        var parameters = DERReader(bytes, algorithm)
        guard let identifier = parameters.element(.objectIdentifier) else { return .unreadable }
        switch KeyKind(bytes, identifier) {
        case .elliptic:
            // The name of a curve, and not its equation: a prime of any size would be computed with.
            return parameters.element(.objectIdentifier) != nil && parameters.isAtEnd ? nil : .explicitCurve
        case .rsa:
            return fault(inRSAKey: bytes, key)
        case .finiteField:
            return .unsupportedKey
        case .other:
            return nil
        }
    }

    /// - Parameter range: the contents of the bit string (RFC 8017, appendix A.1.1).
    private static func fault(inRSAKey bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> Fault? {
        guard range.count > 1, bytes[range.lowerBound] == 0 else { return .unreadable }
        var outer = DERReader(bytes, range.lowerBound + 1..<range.upperBound)
        guard let numbers = outer.element(.sequence) else { return .unreadable }
        var reader = DERReader(bytes, numbers)
        guard let modulus = reader.element(.integer), let exponent = reader.element(.integer) else {
            return .unreadable
        }
        if bitWidth(bytes, modulus) > mostRSABits { return .largeRSAKey }
        // 2^32 itself is even, and so no exponent.
        return bitWidth(bytes, exponent) > 32 ? .largeRSAExponent : nil
    }

    /// The number of bits without leading zeros. A negative number counts by its bytes.
    private static func bitWidth(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> Int {
        for index in range where bytes[index] != 0 {
            return (range.upperBound - index) * 8 - bytes[index].leadingZeroBitCount
        }
        return 0
    }

    /// What a key's algorithm identifier stands for, as far as its cost depends on it.
    private enum KeyKind {
        /// id-ecPublicKey (RFC 5480), SM2 among them.
        case elliptic
        /// rsaEncryption and id-RSASSA-PSS (RFC 4055).
        case rsa
        /// DSA (RFC 3279) and Diffie-Hellman (RFC 3279, PKCS #3): no TLS server that is reached here can sign with one.
        case finiteField
        /// Of one size: Ed25519, Ed448, ML-DSA; or unknown to OpenSSL.
        case other

        private static let ellipticOID: [UInt8] = [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01]
        private static let rsaOIDs: [[UInt8]] = [
            [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01],
            [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x0A],
            // The older name that OpenSSL knows as well (X.500's rsa).
            [0x55, 0x08, 0x01, 0x01],
        ]
        private static let finiteFieldOIDs: [[UInt8]] = [
            [0x2A, 0x86, 0x48, 0xCE, 0x38, 0x04, 0x01],
            [0x2B, 0x0E, 0x03, 0x02, 0x0C], [0x2B, 0x0E, 0x03, 0x02, 0x0D],
            [0x2B, 0x0E, 0x03, 0x02, 0x1B],
            [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x03, 0x01],
            [0x2A, 0x86, 0x48, 0xCE, 0x3E, 0x02, 0x01],
        ]

        init(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) {
            if Self.isSame(bytes, range, Self.ellipticOID) {
                self = .elliptic
            } else if Self.isAny(bytes, range, Self.rsaOIDs) {
                self = .rsa
            } else {
                self = Self.isAny(bytes, range, Self.finiteFieldOIDs) ? .finiteField : .other
            }
        }

        private static func isAny(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>, _ known: [[UInt8]]) -> Bool {
            for identifier in known where isSame(bytes, range, identifier) { return true }
            return false
        }

        private static func isSame(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>, _ known: [UInt8]) -> Bool {
            guard range.count == known.count else { return false }
            for index in known.indices where bytes[range.lowerBound + index] != known[index] { return false }
            return true
        }
    }
}

/// Reads lengths of TLS and elements of DER (X.690) one after the other, within a range of the bytes.
private struct DERReader: ~Escapable {
    enum Tag: UInt8 {
        case integer = 0x02
        case bitString = 0x03
        case octetString = 0x04
        case objectIdentifier = 0x06
        case enumerated = 0x0A
        case sequence = 0x30
        /// `[0] EXPLICIT`.
        case explicit0 = 0xA0
    }

    private let bytes: Span<UInt8>
    private var place: Int
    private let end: Int

    @_lifetime(copy bytes)
    init(_ bytes: borrowing Span<UInt8>) {
        self.bytes = copy bytes
        place = 0
        end = bytes.count
    }

    @_lifetime(copy bytes)
    init(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) {
        self.bytes = copy bytes
        place = range.lowerBound
        end = range.upperBound
    }

    var isAtEnd: Bool { place == end }
    var nextTag: UInt8? { place < end ? bytes[place] : nil }

    /// A big-endian number of a few bytes.
    private mutating func number(_ size: Int) -> Int? {
        guard end - place >= size else { return nil }
        var value = 0
        for index in place..<place + size { value = value << 8 | Int(bytes[index]) }
        place += size
        return value
    }

    /// A vector of TLS with a length of `size` bytes.
    mutating func vector(lengthOf size: Int) -> Range<Int>? {
        guard let length = number(size), end - place >= length else { return nil }
        place += length
        return place - length..<place
    }

    mutating func skip(lengthOf size: Int) -> Bool { vector(lengthOf: size) != nil }

    /// The contents of the next element, which has to have this tag and a definite length.
    mutating func element(_ tag: Tag) -> Range<Int>? {
        guard let found = nextTag, found == tag.rawValue else { return nil }
        place += 1
        guard let first = number(1) else { return nil }
        guard first >= 0x80 else { return contents(first) }
        // 0x80 is a length that is not said, which DER has not.
        let size = first & 0x7F
        guard size > 0, size <= 4, let length = number(size) else { return nil }
        return contents(length)
    }

    /// The next element with its tag and length.
    mutating func whole(_ tag: Tag) -> Range<Int>? {
        let start = place
        return element(tag).map { start..<$0.upperBound }
    }

    private mutating func contents(_ length: Int) -> Range<Int>? {
        guard end - place >= length else { return nil }
        place += length
        return place - length..<place
    }
}

extension CertificateMessage {
    /// Puts the reader before OpenSSL's decoder in the handshakes of a context, and has the messages behind them counted.
    static func guardHandshakes(of context: OpaquePointer) {
        pinproxy_ssl_ctx_count_messages(context)
        pinproxy_ssl_ctx_guard_certificates(context, mostBytes) { body, count, version in
            guard let body else { return Fault.unreadable.rawValue }
            let bytes = UnsafeBufferPointer(start: body, count: count)
            return CertificateMessage.fault(in: bytes.span, isTLS13: version == TLS1_3_VERSION)?.rawValue ?? 0
        }
    }
}
