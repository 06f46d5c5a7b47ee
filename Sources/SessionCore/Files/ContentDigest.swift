// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import IOCore

/// SHA-256 of bytes in pieces, by OpenSSL.
package final class ContentDigest {
    private let context: OpaquePointer

    package init() {
        guard let context = EVP_MD_CTX_new(), EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1 else {
            preconditionFailure("OpenSSL has no SHA-256")
        }
        self.context = context
    }

    deinit { EVP_MD_CTX_free(context) }

    package func update(_ bytes: [UInt8]) {
        EVP_DigestUpdate(context, bytes, bytes.count)
    }

    package func update(_ bytes: borrowing Span<UInt8>) {
        bytes.withUnsafeBufferPointer { _ = EVP_DigestUpdate(context, $0.baseAddress, $0.count) }
    }

    /// The digest, of 32 bytes; no bytes can be added afterwards.
    package func finishedBytes() -> [UInt8] {
        var result = [UInt8](repeating: 0, count: 32)
        EVP_DigestFinal_ex(context, &result, nil)
        return result
    }

    /// The digest in lower-case hexadecimal digits; no bytes can be added afterwards.
    package func finish() -> String {
        finishedBytes().map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
