// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

extension Command {
    static let caShow = Command(
        name: "ca show",
        summary: "the local CA: fingerprint, hosts, how to install it",
        options: AuthorityFiles.options,
        explanation: [
            """
            Prints what the certificate of the local CA says, its SHA-256 fingerprint, and what makes programs trust it: \
            Debian's trust store, Python, Node, Java, Git, curl. The key is not read.
            """
        ],
        examples: [
            Example(line: "pinproxy ca show --config config.json", meaning: "The CA that the configuration names.")
        ]
    ) { arguments throws(CommandFailure) in
        let files = try AuthorityFiles(arguments)
        let certificate: Certificate
        do throws(CertificateFault) {
            certificate = try Certificate.certificates(file: files.certificate)[0]
        } catch {
            throw CommandFailure(
                .inputMissing,
                "\(Arguments.shown(path: files.certificate)): \(error.message)",
                remedy: "make a local CA with pinproxy ca init"
            )
        }
        try Output.standard(AuthorityReport(certificate: certificate, path: files.certificate).text)
        return .success
    }
}
