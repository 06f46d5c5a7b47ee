// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// Apache as an origin over TLS, with its own configuration and folder, never the system's.
///
/// `/files/` serves the folder `files` and takes WebDAV (mod_dav, with locks), `/echo` responds with the request's body
/// (mod_reflector; over HTTP/1.1 alone), `/plain` with fixed text, and `/redirect` redirects to `/plain` over https. Text is
/// compressed for clients that take gzip.
package final class ApacheServer: Sendable {
    package let folder: TemporaryFolder
    private let program: ServerProgram

    package var port: UInt16 { program.port }
    /// Whether Debian's apache2-bin is on this machine.
    package static var isInstalled: Bool { (try? Programs.path(of: "apache2")) != nil }

    /// - Parameters:
    ///   - http2: whether ALPN offers `h2` (mod_http2).
    ///   - directives: further ones, behind all others.
    ///   - files: served under `/files/`, by name.
    package init(
        _ server: TestServer,
        http2: Bool = false,
        directives: [String] = [],
        files: [String: [UInt8]] = [:]
    ) throws {
        let folder = try TemporaryFolder()
        self.folder = folder
        let identity = try server.write(to: folder, name: "server")
        try folder.write("plain text from the origin\n", as: "site/plain")
        for (name, bytes) in files { try folder.write(bytes: bytes, as: "site/files/\(name)") }
        for name in ["site/files", "lock"] {
            try FileManager.default.createDirectory(atPath: "\(folder.path)/\(name)", withIntermediateDirectories: true)
        }
        // Apache refuses to serve as root, and changes to a user that has to read and write these.
        if geteuid() == 0 {
            let owned = ["\(folder.path)/site", "\(folder.path)/lock"]
            let changed = try Programs.run("chown", ["-R", Self.user] + owned)
            guard changed.exitCode == 0 else { throw ChildProcess.Failure(description: changed.errors) }
        }
        program = try ServerProgram("apache2") { port in
            let configuration = Self.configuration(folder.path, port, http2: http2, identity, directives)
            return ["-d", folder.path, "-D", "FOREGROUND", "-f", try folder.write(configuration, as: "apache.conf")]
        }
    }

    /// The lines of its access log so far: method, path, and status.
    package var requests: [String] {
        let text = (try? String(contentsOfFile: "\(folder.path)/access.log", encoding: .utf8)) ?? ""
        return text.split(separator: "\n").map(String.init)
    }

    /// What it has written to its error log.
    package var errors: String { program.output }

    /// The contents of a file under `/files/`; nil where there is none.
    package func file(_ name: String) -> [UInt8]? {
        FileManager.default.contents(atPath: "\(folder.path)/site/files/\(name)").map { [UInt8]($0) }
    }

    private static let user = "www-data"
    private static let modules = [
        "mpm_event", "authz_core", "alias", "dav", "dav_fs", "deflate", "filter", "headers", "mime", "reflector",
        "rewrite",
        "socache_shmcb", "ssl", "http2",
    ]

    private static func configuration(
        _ folder: String,
        _ port: UInt16,
        http2: Bool,
        _ identity: (certificate: String, key: String),
        _ directives: [String]
    ) -> String {
        """
        \(modules.map { "LoadModule \($0)_module /usr/lib/apache2/modules/mod_\($0).so" }.joined(separator: "\n"))
        \(geteuid() == 0 ? "User \(user)\nGroup \(user)" : "")
        DefaultRuntimeDir \(folder)
        PidFile \(folder)/apache.pid
        ServerName localhost
        ErrorLog /dev/stderr
        LogFormat "%m %U %>s" brief
        CustomLog \(folder)/access.log brief
        StartServers 1
        ThreadsPerChild 25
        Listen 127.0.0.1:\(port)
        SSLEngine on
        SSLCertificateFile \(identity.certificate)
        SSLCertificateKeyFile \(identity.key)
        Protocols \(http2 ? "h2 http/1.1" : "http/1.1")
        DocumentRoot \(folder)/site
        DavLockDB \(folder)/lock/database
        TypesConfig /dev/null
        AddType text/plain .txt
        AddOutputFilterByType DEFLATE text/plain
        Redirect 302 /redirect https://api.example.com/plain
        <Location /files>
            Dav On
        </Location>
        <Location /echo>
            SetHandler reflector
        </Location>
        \(directives.joined(separator: "\n"))

        """
    }
}
