import COpenSSL
import ProxyCore

extension Command {
    static let version = Command(
        name: "version",
        summary: "the versions of pinproxy and of the OpenSSL that it runs on"
    ) { _ throws(CommandFailure) in
        let build = ProgramBuild.current
        try Output.standard("pinproxy \(build.version)\n\(build.openSSL)\n")
        return .success
    }
}

/// The program's version, in the form of semver.org; CHANGELOG.md has the changes.
enum ProgramVersion {
    static let current = "0.1.0"
}

extension ProgramBuild {
    static var current: ProgramBuild {
        ProgramBuild(
            version: ProgramVersion.current,
            openSSL: OpenSSL_version(OPENSSL_VERSION).map { String(cString: $0) } ?? "OpenSSL"
        )
    }
}
