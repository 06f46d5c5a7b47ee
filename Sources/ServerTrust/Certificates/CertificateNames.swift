// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import StrictJSON

/// One subject alternative name (RFC 5280, section 4.2.1.6), for display only: OpenSSL checks the host.
public enum SubjectAlternativeName: Hashable, Sendable, CustomStringConvertible {
    /// A host name, possibly with a wildcard as its first label.
    case dns(String)
    /// An address: dotted decimal, or eight groups of hexadecimal digits.
    case ip(String)
    /// A URI; it plays no part for TLS servers.
    case uri(String)
    /// A mailbox; it plays no part for TLS servers.
    case email(String)
    /// A kind that plays no part for TLS servers.
    case other

    public var description: String {
        switch self {
        case .dns(let name): "DNS:" + name
        case .ip(let address): "IP:" + address
        case .uri(let uri): "URI:" + uri
        case .email(let address): "email:" + address
        case .other: "other"
        }
    }
}

extension Certificate {
    /// The subject alternative names in the order of the certificate; bytes outside printable ASCII are shown as `?`, and
    /// texts of more than 256 bytes are cut.
    public var subjectAlternativeNames: [SubjectAlternativeName] {
        let decoded = OpenSSLError.keepingQueueClean { X509_get_ext_d2i(pointer, NID_subject_alt_name, nil, nil) }
        guard let names = decoded else { return [] }
        let stack = OpaquePointer(names)
        defer { GENERAL_NAMES_free(stack) }
        return (0..<OPENSSL_sk_num(stack)).map { index in
            guard let element = OPENSSL_sk_value(stack, index) else { return .other }
            return Certificate.name(element.assumingMemoryBound(to: GENERAL_NAME.self))
        }
    }

    /// Why a certificate that seems to have a name is for no host at all; nil where it has subject alternative names.
    package var lackOfNames: String? {
        guard subjectAlternativeNames.isEmpty else { return nil }
        let hasCommonName = X509_NAME_get_index_by_NID(X509_get_subject_name(pointer), NID_commonName, -1) >= 0
        return hasCommonName
            ? "it has a common name (\(subject)) and no subject alternative name, and a common name does not count (RFC 9525, section 2)"
            : "it has no subject alternative name"
    }

    private static func name(_ name: UnsafePointer<GENERAL_NAME>) -> SubjectAlternativeName {
        var kind: Int32 = 0
        guard let value = GENERAL_NAME_get0_value(name, &kind) else { return .other }
        guard [GEN_DNS, GEN_IPADD, GEN_URI, GEN_EMAIL].contains(kind) else { return .other }
        let bytes = ASN1Bytes.of(value)
        let readable = bytes.prefix(longestText + 1).map { (0x20..<0x7f).contains($0) ? $0 : UInt8(ascii: "?") }
        let text = LegibleText.cut(String(decoding: readable, as: UTF8.self), at: longestText)
        return switch kind {
        case GEN_DNS: .dns(text)
        case GEN_URI: .uri(text)
        case GEN_EMAIL: .email(text)
        default: .ip(address(bytes))
        }
    }

    static func address(_ bytes: [UInt8]) -> String {
        switch bytes.count {
        case 4: bytes.map { "\($0)" }.joined(separator: ".")
        case 16:
            stride(from: 0, to: 16, by: 2)
                .map { String(UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]), radix: 16) }
                .joined(separator: ":")
        default: "?"
        }
    }
}
