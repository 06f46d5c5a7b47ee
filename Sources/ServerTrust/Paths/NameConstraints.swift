// SPDX-License-Identifier: Apache-2.0
import COpenSSL
package import HTTPCore

/// The name constraints of a CA (RFC 5280, section 4.2.1.10), applied to a host.
///
/// OpenSSL applies them to the names in a certificate. A wildcard name can be in another subtree than a host that it
/// matches: `*.example.com` is not in the excluded subtree `secret.example.com` (Go's CVE-2025-61727). Therefore the
/// host itself is checked as well, by OpenSSL's rules: the subtree of a name contains the name and all names below it;
/// with a leading dot only the names below it; the empty name contains every name.
package enum NameConstraints {
    /// The reason why a CA must not sign for a host.
    package enum Objection: Hashable, Sendable {
        /// There are permitted subtrees for this kind of name, and the host is in none of these.
        case notPermitted
        /// The host is in an excluded subtree.
        case excluded
        /// The extension, or an excluded subtree, cannot be decoded.
        case unreadable
    }

    /// Cheap for a certificate without name constraints: only its list of extensions is searched.
    ///
    /// - Returns: nil when the CA may sign for the host.
    package static func objection(of authority: Certificate, to host: Host) -> Objection? {
        guard X509_get_ext_by_NID(authority.pointer, NID_name_constraints, -1) >= 0 else { return nil }
        return decoded(authority) { constraints -> Objection? in
            guard let constraints else { return .unreadable }
            let name = Name(host)
            for subtree in subtrees(constraints.pointee.excludedSubtrees) {
                switch name.isWithin(subtree) {
                case .yes: return .excluded
                case .unknown: return .unreadable
                case .no, .otherKind: break
                }
            }
            var isBound = false
            for subtree in subtrees(constraints.pointee.permittedSubtrees) {
                switch name.isWithin(subtree) {
                case .yes: return nil
                case .no, .unknown: isBound = true
                case .otherKind: break
                }
            }
            return isBound ? .notPermitted : nil
        }
    }

    /// Whether the extension of a CA that has it constrains anything, and no subtree of host names begins with a dot.
    static func isWellFormed(in authority: Certificate) -> Bool {
        decoded(authority) { constraints in
            guard let constraints else { return false }
            let all =
                subtrees(constraints.pointee.permittedSubtrees) + subtrees(constraints.pointee.excludedSubtrees)
            return !all.isEmpty
                && all.allSatisfy { subtree in
                    var kind: Int32 = 0
                    guard let base = subtree.pointee.base, let value = GENERAL_NAME_get0_value(base, &kind) else {
                        return false
                    }
                    return kind != GEN_DNS || ASN1Bytes.of(value).first != UInt8(ascii: ".")
                }
        }
    }

    /// - Parameter body: is given nil where the extension cannot be decoded.
    private static func decoded<Result>(
        _ authority: Certificate,
        _ body: (UnsafeMutablePointer<NAME_CONSTRAINTS>?) -> Result
    ) -> Result {
        OpenSSLError.keepingQueueClean {
            let constraints = X509_get_ext_d2i(authority.pointer, NID_name_constraints, nil, nil)?
                .assumingMemoryBound(to: NAME_CONSTRAINTS.self)
            defer { constraints.map { NAME_CONSTRAINTS_free($0) } }
            return body(constraints)
        }
    }

    /// Borrowed from the decoded extension.
    private static func subtrees(_ stack: OpaquePointer?) -> [UnsafePointer<GENERAL_SUBTREE>] {
        guard let stack else { return [] }
        return (0..<OPENSSL_sk_num(stack)).compactMap { index in
            OPENSSL_sk_value(stack, index).map { UnsafePointer($0.assumingMemoryBound(to: GENERAL_SUBTREE.self)) }
        }
    }

    /// A host in the form of names in certificates.
    private struct Name {
        private let kind: Int32
        private let bytes: [UInt8]

        enum Membership {
            case yes
            case no
            /// The subtree is for another kind of name.
            case otherKind
            case unknown
        }

        init(_ host: Host) {
            kind = host.address == nil ? GEN_DNS : GEN_IPADD
            bytes = host.address?.networkOrder ?? host.bytes
        }

        func isWithin(_ subtree: UnsafePointer<GENERAL_SUBTREE>) -> Membership {
            var found: Int32 = 0
            guard let base = subtree.pointee.base, let value = GENERAL_NAME_get0_value(base, &found) else {
                return .unknown
            }
            guard found == kind else { return .otherKind }
            // RFC 5280 leaves a minimum and a maximum unused.
            guard subtree.pointee.maximum == nil,
                subtree.pointee.minimum.map({ ASN1_INTEGER_get($0) == 0 }) ?? true
            else { return .unknown }
            let bytes = ASN1Bytes.of(value)
            return kind == GEN_DNS ? isBelow(bytes) : isInRange(bytes)
        }

        private func isBelow(_ base: [UInt8]) -> Membership {
            if base.isEmpty { return .yes }
            let hasDot = base.first == UInt8(ascii: ".")
            let name = hasDot ? base.dropFirst() : base[...]
            // The meaning of `*.example.com` and the like is undefined here.
            guard let text = try? Host(normalizing: Array(name).span), text.kind == .name,
                text.bytes.count == name.count
            else { return .unknown }
            if bytes == text.bytes { return hasDot ? .no : .yes }
            guard bytes.count > text.bytes.count, bytes.hasSuffix(text.bytes),
                bytes[bytes.count - text.bytes.count - 1] == UInt8(ascii: ".")
            else { return .no }
            return .yes
        }

        /// An address and a mask (RFC 5280, section 4.2.1.10).
        private func isInRange(_ base: [UInt8]) -> Membership {
            guard base.count == 8 || base.count == 32 else { return .unknown }
            guard base.count == 2 * bytes.count else { return .no }
            let isWithin = bytes.indices.allSatisfy { (bytes[$0] ^ base[$0]) & base[bytes.count + $0] == 0 }
            return isWithin ? .yes : .no
        }
    }
}

extension [UInt8] {
    fileprivate func hasSuffix(_ end: [UInt8]) -> Bool { count >= end.count && suffix(end.count).elementsEqual(end) }
}
