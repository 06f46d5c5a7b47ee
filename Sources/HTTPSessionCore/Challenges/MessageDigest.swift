// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// The hashes of HTTP authentication, by OpenSSL.
enum MessageDigest: Sendable {
    /// For Digest authentication alone, with servers that support nothing better.
    case md5
    case sha256
    /// SHA-512/256.
    case sha512Truncated

    /// The hash of the text's UTF-8, in lower-case hexadecimal digits.
    func hex(_ text: String) -> String {
        let algorithm =
            switch self {
            case .md5: EVP_md5()
            case .sha256: EVP_sha256()
            case .sha512Truncated: EVP_sha512_256()
            }
        let bytes = Array(text.utf8)
        var result = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        // A provider without MD5 (FIPS) computes nothing; no server accepts the empty text.
        guard EVP_Digest(bytes, bytes.count, &result, &count, algorithm, nil) == 1 else { return "" }
        return result.prefix(Int(count)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
