// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// AES-256-GCM (NIST SP 800-38D) of one message, by OpenSSL. It owns its context.
struct AES256GCM: ~Copyable {
    static let nonceLength = 12
    static let tagLength = 16
    /// OpenSSL takes lengths of 32 bits.
    static let longest = 1 << 30

    enum Direction: Int32 {
        case decrypting = 0
        case encrypting = 1
    }

    private let context: OpaquePointer

    /// - Parameters:
    ///   - key: of 32 bytes.
    ///   - nonce: is used for one message of the key.
    ///   - data: is authenticated, and no part of the result.
    init(_ direction: Direction, key: [UInt8], nonce: borrowing Span<UInt8>, authenticating data: [UInt8]) {
        precondition(key.count == 32 && nonce.count == Self.nonceLength && data.count <= Self.longest)
        guard let context = EVP_CIPHER_CTX_new() else { preconditionFailure("no memory for a cipher") }
        self.context = context
        let isReady = nonce.withUnsafeBufferPointer {
            EVP_CipherInit_ex(context, EVP_aes_256_gcm(), nil, key, $0.baseAddress, direction.rawValue) == 1
        }
        var count: Int32 = 0
        precondition(
            isReady && EVP_CipherUpdate(context, nil, &count, data, Int32(data.count)) == 1,
            "OpenSSL has no AES-256-GCM"
        )
    }

    deinit { EVP_CIPHER_CTX_free(context) }

    /// Encrypts or decrypts the next bytes.
    ///
    /// - Parameter output: has room for as many bytes. Decrypted ones must not be used before `hasTag` has returned true.
    func update(_ input: borrowing Span<UInt8>, to output: UnsafeMutablePointer<UInt8>) {
        guard !input.isEmpty else { return }
        precondition(input.count <= Self.longest, "more bytes than OpenSSL takes")
        var count: Int32 = 0
        let isDone = input.withUnsafeBufferPointer {
            EVP_CipherUpdate(context, output, &count, $0.baseAddress, Int32($0.count)) == 1
        }
        precondition(isDone && Int(count) == input.count, "AES-256-GCM failed")
    }

    /// Ends an encryption.
    ///
    /// - Parameter output: has room for `tagLength` bytes.
    func writeTag(to output: UnsafeMutablePointer<UInt8>) {
        var count: Int32 = 0
        // The pointer is there because OpenSSL wants one: GCM has nothing left to write.
        let isDone =
            EVP_CipherFinal_ex(context, output, &count) == 1
            && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(Self.tagLength), output) == 1
        precondition(isDone && count == 0, "AES-256-GCM failed")
    }

    /// Ends a decryption.
    ///
    /// - Parameter tag: of `tagLength` bytes.
    /// - Returns: whether the owner of the key has encrypted these bytes with this nonce and data.
    func hasTag(_ tag: [UInt8]) -> Bool {
        var tag = tag
        var count: Int32 = 0
        var nothing: UInt8 = 0
        let isGenuine =
            tag.count == Self.tagLength
            && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(Self.tagLength), &tag) == 1
            && EVP_CipherFinal_ex(context, &nothing, &count) == 1
        // The thread's queue of errors belongs to its TLS connections.
        if !isGenuine { ERR_clear_error() }
        return isGenuine
    }
}
