// SPDX-License-Identifier: Apache-2.0
import IOCore
import ServerTrust

/// A backup key, made here and written to a file that only its owner can read.
enum BackupKeyFile {
    /// Makes a P-256 key and writes it as unprotected PKCS #8 in PEM. An existing file is not changed.
    ///
    /// - Returns: the key's pin.
    static func create(_ path: String) throws(CommandFailure) -> PublicKeyPin {
        let key: KeyPair
        do throws(OpenSSLError) {
            key = try KeyPair(.p256)
        } catch {
            throw CommandFailure(.internal, "no key could be made: \(error)")
        }
        try NewFile.create(path, key.privateKeyPEM, as: .secret)
        return key.pin
    }
}
