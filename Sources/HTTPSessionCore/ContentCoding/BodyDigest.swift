// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore
import SessionCore

/// Whether the body of a response is compared with its `Content-Digest` and `Repr-Digest` (RFC 9530).
///
/// Both are digests of what was transferred, before a content coding is undone. `sha-256` and `sha-512` are known; other algorithms, and a
/// field that is no dictionary of byte sequences, are ignored, as if they were not there. `Repr-Digest` of a part (206) is that of the
/// whole, which is not there: only `Content-Digest` is compared. A response without content (HEAD, 204, 304) is not compared. A body
/// with another digest fails with `responseInvalid`; a consumer that reads it while it arrives has had its bytes by then.
public enum DigestCheck: Sendable, Hashable {
    /// No field is read.
    case off
    /// A digest that the response has, in a field or a trailer, has to be that of the body.
    case ifPresent
    /// Likewise, and a response without a known digest fails with `responseInvalid`.
    case required
}

/// Hashes the content of one response. Belongs to the loop.
package final class BodyDigest {
    package enum Algorithm: CaseIterable {
        case sha256
        case sha512

        init?(_ key: String) {
            switch key {
            case "sha-256": self = .sha256
            case "sha-512": self = .sha512
            default: return nil
            }
        }

        var name: String { self == .sha256 ? "sha-256" : "sha-512" }
    }

    private let isRequired: Bool
    private let isPart: Bool
    private var contexts: [Algorithm: OpaquePointer] = [:]
    private var expected: [(field: String, algorithm: Algorithm, digest: [UInt8])] = []

    /// nil when nothing is to be compared.
    init?(_ head: borrowing ResponseHead, _ check: DigestCheck) {
        guard check != .off else { return nil }
        if case .none = head.framing { return nil }
        isRequired = check == .required
        isPart = head.status == 206
        add(head.fields)
        // A trailer may have the digest, of either algorithm.
        for algorithm in Algorithm.allCases {
            let context = EVP_MD_CTX_new()
            guard let context, EVP_DigestInit_ex(context, algorithm == .sha256 ? EVP_sha256() : EVP_sha512(), nil) == 1
            else {
                EVP_MD_CTX_free(context)
                continue
            }
            contexts[algorithm] = context
        }
    }

    deinit { for context in contexts.values { EVP_MD_CTX_free(context) } }

    /// Reads the digests of fields or trailers.
    func add(_ fields: borrowing HeaderFields) {
        for field in isPart ? ["Content-Digest"] : ["Content-Digest", "Repr-Digest"] {
            let lines = fields.list.filter { $0.name.lowercased() == field.lowercased() }.map(\.value)
            guard !lines.isEmpty, let members = DigestField.parse(lines.joined(separator: ", ")) else { continue }
            for (algorithm, digest) in members { expected.append((field, algorithm, digest)) }
        }
    }

    /// Hashes a piece of the content.
    func update(_ bytes: borrowing Span<UInt8>) {
        for context in contexts.values {
            bytes.withUnsafeBufferPointer { _ = EVP_DigestUpdate(context, $0.baseAddress, $0.count) }
        }
    }

    /// The fault of a content that is complete; nil for none.
    func fault() -> SessionError? {
        var digests: [Algorithm: [UInt8]] = [:]
        for (algorithm, context) in contexts {
            var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
            var count: UInt32 = 0
            if EVP_DigestFinal_ex(context, &digest, &count) == 1 {
                digests[algorithm] = Array(digest.prefix(Int(count)))
            }
        }
        for (field, algorithm, digest) in expected {
            guard let own = digests[algorithm] else {
                return SessionError(.internal, "OpenSSL does not compute \(algorithm.name) here.")
            }
            if own != digest {
                return SessionError(
                    .responseInvalid,
                    "The body is not the one that \(field) of the response describes: its \(algorithm.name) is another one."
                )
            }
        }
        guard expected.isEmpty, isRequired else { return nil }
        let fields = isPart ? "Content-Digest" : "Content-Digest or Repr-Digest"
        return SessionError(
            .responseInvalid,
            "The response has no \(fields) with sha-256 or sha-512, which is required."
        )
    }
}

/// A dictionary of byte sequences (RFC 9651, sections 3.2 and 3.3.5).
package enum DigestField {
    /// The members with algorithms that are known, the last one of each; nil for anything else. Others are read and dropped: a server
    /// can name thousands.
    package static func parse(_ text: String) -> [BodyDigest.Algorithm: [UInt8]]? {
        var members: [BodyDigest.Algorithm: [UInt8]] = [:]
        var rest = Array(text.utf8)[...]
        skip(&rest) { $0 == UInt8(ascii: " ") }
        while true {
            guard let key = key(&rest), take(UInt8(ascii: "="), &rest), let digest = bytes(&rest), parameters(&rest)
            else {
                return nil
            }
            if let algorithm = BodyDigest.Algorithm(key) { members[algorithm] = digest }
            skip(&rest, while: ASCII.isBlank)
            if rest.isEmpty { return members }
            guard take(UInt8(ascii: ","), &rest) else { return nil }
            skip(&rest, while: ASCII.isBlank)
        }
    }

    private static func skip(_ rest: inout ArraySlice<UInt8>, while condition: (UInt8) -> Bool) {
        rest = rest.drop(while: condition)
    }

    private static func take(_ byte: UInt8, _ rest: inout ArraySlice<UInt8>) -> Bool {
        guard rest.first == byte else { return false }
        rest.removeFirst()
        return true
    }

    private static func key(_ rest: inout ArraySlice<UInt8>) -> String? {
        let isLower = { (byte: UInt8) in (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) }
        guard let first = rest.first, isLower(first) || first == UInt8(ascii: "*") else { return nil }
        let key = rest.prefix { isLower($0) || ASCII.isDigit($0) || "_-.*".utf8.contains($0) }
        rest = rest[key.endIndex...]
        return String(decoding: key, as: UTF8.self)
    }

    private static func bytes(_ rest: inout ArraySlice<UInt8>) -> [UInt8]? {
        guard take(UInt8(ascii: ":"), &rest), let end = rest.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let text = Array(rest[..<end])
        rest = rest[(end + 1)...]
        return text.isEmpty ? [] : Base64.decode(text)
    }

    /// Parameters have no meaning here; those of keys and tokens are passed over.
    private static func parameters(_ rest: inout ArraySlice<UInt8>) -> Bool {
        while take(UInt8(ascii: ";"), &rest) {
            skip(&rest) { $0 == UInt8(ascii: " ") }
            guard key(&rest) != nil else { return false }
            guard take(UInt8(ascii: "="), &rest) else { continue }
            let value = rest.prefix { ASCII.isLetter($0) || ASCII.isDigit($0) || "-._*:/?+".utf8.contains($0) }
            guard !value.isEmpty else { return false }
            rest = rest[value.endIndex...]
        }
        return true
    }
}
