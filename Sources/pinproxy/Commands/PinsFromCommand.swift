import Glibc
import ServerTrust

extension Command {
    static let pinsFrom = Command(
        name: "pins from",
        summary: "the pins of the certificates, requests and keys in files",
        operands: .oneOrMore("FILE"),
        explanation: [
            """
            Prints a line a key: its pin (SHA-256 over the SubjectPublicKeyInfo), then the subject or what it was read \
            from. PEM with any number of blocks, or DER: certificates, certificate requests, public and private keys \
            without a password. Nothing is sent anywhere.
            """
        ],
        examples: [
            Example(line: "pinproxy pins from api.pem", meaning: "The pins of a certificate and its intermediates."),
            Example(line: "pinproxy pins from next.key", meaning: "The backup pin of a key that is not in use yet."),
        ]
    ) { arguments throws(CommandFailure) in
        var exitCode = ExitCode.success
        for file in arguments.operands {
            do throws(CommandFailure) {
                let keys = try keys(in: file)
                try Output.standard(keys.map { "\($0.pin)  \(describe($0))\n" }.joined())
            } catch {
                // The other files have their say all the same; the first failure decides the exit code.
                Program.report(error)
                if exitCode == .success { exitCode = error.exitCode }
            }
        }
        return exitCode
    }

    private static func keys(in file: String) throws(CommandFailure) -> [PublicKey] {
        switch FileContents.read(file, limit: 16 << 20) {
        case .failure(let fault):
            throw CommandFailure(
                access(file, F_OK) == 0 ? .failed : .inputMissing,
                "\(Arguments.shown(file)) \(fault.message)",
                remedy: fault.remedy
            )
        case .success(let bytes):
            do throws(CertificateFault) {
                return try PublicKey.keys(in: bytes)
            } catch {
                throw CommandFailure(.failed, "\(Arguments.shown(file)): \(error.message)", remedy: error.remedy)
            }
        }
    }

    private static func describe(_ key: PublicKey) -> String {
        switch key.source {
        case .certificate: "\(key.subject) (\(key.keyDescription))"
        case .certificateRequest: "\(key.subject) (\(key.keyDescription), request)"
        case .publicKey: "\(key.keyDescription), public key"
        case .privateKey: "\(key.keyDescription), private key"
        }
    }
}
