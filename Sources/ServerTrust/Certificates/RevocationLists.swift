// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// Certificate revocation lists (RFC 5280, section 5) that a policy holds.
public final class RevocationLists: Sendable {
    package let lists: [RevocationList]
    /// The earliest `nextUpdate` among the lists, in seconds since 1970: after that time the list is not valid.
    package let earliestNextUpdate: Int64
    /// SHA-256 over the lists, whatever their order: equal for equal lists, and different as soon as a list is
    /// reissued.
    package let digest: [UInt8]

    /// The certificates of the chain that a list has to cover.
    public enum Scope: String, Sendable, CaseIterable {
        /// The server's own certificate.
        case leaf
        /// Every certificate of the chain, including a self-signed anchor, which needs a list of its own.
        case chain
    }

    /// Reads the lists of files' contents: PEM with any number of lists, or one in DER.
    ///
    /// - Throws: for input that is not a list, and for a list that cannot be used: one without an end (`nextUpdate`), a
    ///   delta list, one with a critical extension that is not understood, a weak signature. Signer and validity period
    ///   are checked with each chain.
    public init(contents: [[UInt8]]) throws(CertificateFault) {
        var lists: [RevocationList] = []
        for bytes in contents { lists += try RevocationList.read(bytes) }
        self.lists = lists
        earliestNextUpdate = lists.map(\.nextUpdate).min() ?? .max
        digest = SecretDigest.sha256(
            lists.map(\.digest).sorted { $0.lexicographicallyPrecedes($1) }.flatMap { $0 }
        )
    }

    /// The number of lists.
    public var count: Int { lists.count }

    /// Messages about lists that are not valid now: issuer and reason.
    ///
    /// - Parameter now: seconds since 1970.
    package func notInForce(at now: Int64) -> [String] {
        lists.compactMap { list in
            if list.nextUpdate <= now { return "the list of \"\(list.issuer)\" is out of date" }
            return list.thisUpdate > now ? "the list of \"\(list.issuer)\" is not valid yet" : nil
        }
    }
}
