import ServerTrust

/// A key in reserve, made here and put into a file that nobody else can read.
enum BackupKeyFile {
    /// Makes a P-256 key and writes it as unprotected PKCS #8 in PEM. A file that is there already stays as it is.
    ///
    /// - Returns: the key's pin.
    static func create(_ path: String) throws(CommandFailure) -> PublicKeyPin {
        let key: KeyPair
        do throws(OpenSSLError) {
            key = try KeyPair(.p256)
        } catch {
            throw CommandFailure(.internal, "no key could be made: \(error)")
        }
        try NewFile.create(path, key.privateKeyPEM, mode: 0o600)
        return key.pin
    }
}
