// SPDX-License-Identifier: Apache-2.0
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
            without a password. - is the standard input. Nothing is sent anywhere.
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
                // The other files are processed nevertheless; the first failure decides the exit code.
                Program.report(error)
                if exitCode == .success { exitCode = error.exitCode }
            }
        }
        return exitCode
    }

    private static func keys(in file: String) throws(CommandFailure) -> [PublicKey] {
        let isInput = file == "-"
        let bytes = isInput ? try standardInput() : try contents(of: file)
        do throws(CertificateFault) {
            return try PublicKey.keys(in: bytes)
        } catch {
            let name = isInput ? "the standard input" : Arguments.shown(path: file)
            throw CommandFailure(.failed, "\(name): \(error.message)", remedy: error.remedy)
        }
    }

    private static let limit = 16 << 20

    private static func contents(of file: String) throws(CommandFailure) -> [UInt8] {
        switch FileContents.read(file, limit: limit) {
        case .success(let bytes):
            return bytes
        case .failure(let fault):
            throw CommandFailure(
                access(file, F_OK) == 0 ? .failed : .inputMissing,
                "\(Arguments.shown(path: file)) \(fault.message)",
                remedy: fault.remedy
            )
        }
    }

    private static func standardInput() throws(CommandFailure) -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        while bytes.count <= limit {
            let count = read(STDIN_FILENO, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                throw CommandFailure(.failed, "the standard input cannot be read: \(String(cString: strerror(errno)))")
            }
            if count == 0 { return bytes }
            bytes += chunk[..<count]
        }
        throw CommandFailure(.failed, "the standard input is longer than \(limit >> 20) MB")
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
