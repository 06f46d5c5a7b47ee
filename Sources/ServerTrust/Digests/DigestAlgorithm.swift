// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// Algorithms that OpenSSL has looked up once: each use of `EVP_sha256()` is a search among its providers, under locks.
enum DigestAlgorithm {
    /// Never freed. (`nonisolated(unsafe)` is safe here: OpenSSL does not change an `EVP_MD` after it was fetched.)
    nonisolated(unsafe) static let sha256: OpaquePointer? = EVP_MD_fetch(nil, "SHA256", nil)
}
