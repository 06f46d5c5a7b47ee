// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import ProxyAdmin
import StrictJSON

extension Command {
    static let version = Command(
        name: "version",
        summary: "the versions of pinproxy and of the libraries that it runs on",
        options: [Command.Option(name: "json", summary: "print one JSON object instead")]
    ) { arguments throws(CommandFailure) in
        let libraries = ProgramVersion.libraries
        if arguments.has("json") {
            var members = JSONLine()
            for case (let name, let version?) in libraries { members.add(name, version) }
            var line = JSONLine()
            line.add("version", ProgramVersion.current)
            if let commit = ProgramVersion.commit { line.add("commit", commit) }
            line.add("libraries", members)
            try Output.standard(line.text)
            return .success
        }
        let commit = ProgramVersion.commit.map { " (commit \($0))" } ?? ""
        let rows = libraries.map { "\($0.name) \($0.version ?? "not installed (for SOCKS proxies alone)")\n" }.joined()
        try Output.standard("pinproxy \(ProgramVersion.current)\(commit)\n\(rows)")
        return .success
    }
}

extension ProgramBuild {
    static var current: ProgramBuild {
        ProgramBuild(
            version: ProgramVersion.current,
            openSSL: OpenSSL_version(OPENSSL_VERSION).map { String(cString: $0) } ?? "OpenSSL"
        )
    }
}
