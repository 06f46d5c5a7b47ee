import Glibc
import IOCore
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
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            let code = errno
            throw CommandFailure(
                .failed,
                "\(Arguments.shown(path)) cannot be made: \(String(cString: strerror(code)))",
                remedy: code == EEXIST ? "no key is ever overwritten: name a file that does not exist" : ""
            )
        }
        // On the disk before its pin is deployed: a pin without its key is no backup.
        var code = DescriptorOutput.write(key.privateKeyPEM, to: descriptor)
        if code == 0, fsync(descriptor) != 0 { code = errno }
        if close(descriptor) != 0, code == 0 { code = errno }
        guard code == 0 else {
            unlink(path)
            throw CommandFailure(
                .failed,
                "\(Arguments.shown(path)) cannot be written: \(String(cString: strerror(code)))"
            )
        }
        return key.pin
    }
}
