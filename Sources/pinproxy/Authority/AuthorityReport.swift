// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import ServerTrust

/// The description of the local CA that `ca init` and `ca show` print.
struct AuthorityReport {
    var certificate: Certificate
    var path: String

    var text: String {
        var text = row("certificate", absolutePath)
        text += row("subject", certificate.subject)
        text += row("fingerprint", "SHA-256 \(certificate.fingerprint)")
        let names = certificate.permittedNames
        text += row(
            "signs for",
            names.isEmpty ? "ANY HOST: make one with pinproxy ca init" : names.joined(separator: ", ")
        )
        text += row(
            "purpose",
            certificate.isBoundToServers
                ? "TLS servers alone"
                : "MORE THAN TLS SERVERS: an older pinproxy made it; make one with pinproxy ca init"
        )
        text += row("valid from", date(certificate.notBefore))
        text += row("until", date(certificate.notAfter))
        text +=
            "\nPrograms have to trust it. For one user or one program, beside the authorities that it trusts anyway:\n\n"
        for (program, line) in additions { text += row("  \(program)", line) }
        text += """

            These REPLACE the program's file of authorities: it may then trust this CA alone, so that servers which
            pinproxy does not intercept fail. To keep the others, name a file that has both
            (cat /etc/ssl/certs/ca-certificates.crt \(quoted) > both.pem):


            """
        for (program, line) in replacements { text += row("  \(program)", line) }
        text += "\nFor the whole machine (Debian, Ubuntu), as root:\n\n"
        text += "  cp \(quoted) /usr/local/share/ca-certificates/pinproxy-local-ca.crt\n  update-ca-certificates\n"
        return text
    }

    private var additions: [(String, String)] {
        [
            ("Git, this host", "git config --global http.\"https://\(firstName)/\".sslCAInfo \(quoted)"),
            ("Node", "NODE_EXTRA_CA_CERTS=\(quoted)"),
            (
                "Java",
                "keytool -importcert -noprompt -cacerts -storepass changeit -alias pinproxy-local-ca -file \(quoted)"
            ),
        ]
    }

    private var replacements: [(String, String)] {
        [
            ("curl", "curl --cacert \(quoted) …    or CURL_CA_BUNDLE=\(quoted)"),
            ("Python, ssl", "SSL_CERT_FILE=\(quoted)"),
            ("Python, requests", "REQUESTS_CA_BUNDLE=\(quoted)"),
        ]
    }

    private var firstName: String { certificate.permittedNames.first ?? "HOST" }

    private var absolutePath: String {
        guard !path.hasPrefix("/"), let resolved = realpath(path, nil) else { return path }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    /// The text as a single word for a shell.
    private var quoted: String {
        let path = absolutePath
        let isPlain = path.utf8.allSatisfy { byte in
            ASCII.isLetter(byte) || ASCII.isDigit(byte) || "/._-+".utf8.contains(byte)
        }
        return isPlain
            ? path : "'" + path.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }

    private func date(_ seconds: Int64?) -> String {
        guard let seconds else { return "NOT A TIME: programs refuse it; make one with pinproxy ca init" }
        return String(decoding: HTTPDate.format(unixSeconds: Int(seconds)), as: UTF8.self)
    }

    private func row(_ label: String, _ text: String) -> String {
        label + String(repeating: " ", count: max(1, 19 - label.count)) + text + "\n"
    }
}
