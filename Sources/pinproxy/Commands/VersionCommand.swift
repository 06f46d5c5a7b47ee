import COpenSSL

extension Command {
    static let version = Command(
        name: "version",
        summary: "the versions of pinproxy and of the OpenSSL that it runs on"
    ) { _ throws(CommandFailure) in
        let openssl = OpenSSL_version(OPENSSL_VERSION).map { String(cString: $0) } ?? "OpenSSL"
        try Output.standard("pinproxy \(ProgramVersion.current)\n\(openssl)\n")
        return .success
    }
}

/// The program's version, by semver.org; CHANGELOG.md tells what changed.
enum ProgramVersion {
    static let current = "0.1.0"
}
