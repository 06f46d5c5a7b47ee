// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

/// A server of the matrix: how it is started, and what it can do.
struct MatrixServer: Sendable, CustomTestStringConvertible {
    /// What is asked of servers; a column of the table each.
    enum Action: String, CaseIterable {
        case get = "GET"
        case head = "HEAD"
        case body = "a body"
        case revalidate = "304"
        case range = "Range"
        case chunked = "chunked"
        case gzip = "gzip"
        /// An answer before the body has come.
        case early = "early 413"
        case expect = "`Expect`"
        /// Two requests, one connection.
        case keep = "kept"
    }

    /// A server that runs, for as long as this is kept.
    struct Running {
        let port: UInt16
        let owners: [Any]
    }

    let name: String
    /// Programs, each of which has to be there.
    let programs: [String]
    /// A command that succeeds where what the server needs is there.
    var needs: String?
    /// What pinproxy speaks with it.
    var version = "1.1"
    /// The method and the path that take a body.
    var takes = ("POST", "/echo")
    /// What is sent in chunks: what a script writes, or what is compressed on the way.
    var chunked = (path: "/chunked", fields: [String]())
    /// What it does not do, with the reason.
    var lacks: [Action: String] = [:]
    let start: @Sendable (TestServer, TemporaryFolder) throws -> Running

    var testDescription: String { name }

    /// A cell of the table.
    func cell(_ action: Action) -> String { lacks[action] ?? "✓" }

    /// Why it cannot be run on this machine; nil when it can.
    var absence: String? {
        for program in programs where (try? Programs.path(of: program)) == nil { return "\(program) is not installed" }
        if let needs, (try? Programs.run("sh", ["-c", needs]))?.exitCode != 0 { return "\(needs): failed" }
        return nil
    }

    // MARK: The files that all of them serve

    static let page = String(repeating: "compressible words ", count: 1000)
    /// Large even when it is compressed, so that nobody knows its length beforehand.
    private static let large = (1...200_000).map { "\($0 &* 7919 % 100_003) " }.joined()
    static let files = ["page.txt": Array(page.utf8), "large.txt": Array(large.utf8)]

    private static let compressed = (path: "/files/large.txt", fields: ["Accept-Encoding: gzip"])
    private static let upload = ("PUT", "/files/put.txt")

    static let all: [MatrixServer] = [
        nginx("nginx", "1.1"), nginx("nginx, HTTP/2", "2"), apache("Apache", "1.1"), apache("Apache, HTTP/2", "2"),
        MatrixServer(
            name: "HAProxy before nginx",
            programs: ["haproxy", "nginx"],
            takes: upload,
            chunked: compressed,
            start: { server, folder in
                let origin = try startNginx(server, http2: false)
                let identity = try folder.write(server.chainPEM + server.privateKeyPEM, as: "identity.pem")
                return try configured("haproxy", folder, { _ in ["-db", "-f"] }, keeping: origin) { port in
                    """
                    defaults
                        mode http
                        timeout connect 30s
                        timeout client 60s
                        timeout server 60s
                    frontend front
                        bind 127.0.0.1:\(port) ssl crt \(identity)
                        default_backend back
                    backend back
                        server nginx 127.0.0.1:\(origin.port) ssl verify none

                    """
                }
            }
        ),
        MatrixServer(
            name: "Squid before nginx",
            programs: ["squid", "nginx"],
            takes: upload,
            chunked: compressed,
            start: { server, folder in
                let origin = try startNginx(server, http2: false)
                let identity = try server.write(to: folder, name: "server")
                // Squid gives root's rights up before it writes its log.
                let log = try folder.write("", as: "cache.log")
                chmod(log, 0o666)
                return try configured("squid", folder, { ["-N", "-n", "test\($0)", "-f"] }, keeping: origin) { port in
                    """
                    https_port 127.0.0.1:\(port) accel defaultsite=\(Stage.host) \
                    tls-cert=\(identity.certificate) tls-key=\(identity.key)
                    cache_peer 127.0.0.1 parent \(origin.port) 0 no-query no-digest no-netdb-exchange originserver \
                    tls sslflags=DONT_VERIFY_PEER
                    never_direct allow all
                    http_access allow all
                    access_log none
                    cache_log \(log)
                    pid_filename none
                    coredump_dir \(folder.path)
                    pinger_enable off
                    shutdown_lifetime 0 seconds
                    max_filedescriptors 1024
                    visible_hostname test

                    """
                }
            }
        ),
        MatrixServer(
            name: "nghttpd",
            programs: ["nghttpd"],
            version: "2",
            lacks: [.range: "no Range", .chunked: "files only", .gzip: "no gzip", .early: "reads all"],
            start: { server, folder in
                let identity = try server.write(to: folder, name: "server")
                let program = try ServerProgram("nghttpd") { port in
                    [
                        "--echo-upload", "-a", "127.0.0.1", "-d", folder.path, "\(port)", identity.key,
                        identity.certificate,
                    ]
                }
                return Running(port: program.port, owners: [program])
            }
        ),
        MatrixServer(
            name: "Python http.server",
            programs: ["python3"],
            lacks: [.range: "no Range", .gzip: "no gzip"],
            start: { try printing(RealPeers.python, [RealPeers.script("Servers/python_server.py")], $0, $1) }
        ),
        MatrixServer(
            name: "Node https",
            programs: ["node"],
            start: { try printing("node", [RealPeers.script("Servers/node_server.js")], $0, $1) }
        ),
        MatrixServer(
            name: "Node http2",
            programs: ["node"],
            version: "2",
            start: { try printing("node", [RealPeers.script("Servers/node_server.js"), "2"], $0, $1) }
        ),
        MatrixServer(
            name: "Go net/http",
            programs: ["go"],
            lacks: [.gzip: "no gzip"],
            start: { try printing(RealPeers.built("Servers/go_server.go"), [], $0, $1) }
        ),
        MatrixServer(
            name: "Go net/http, HTTP/2",
            programs: ["go"],
            version: "2",
            lacks: [.gzip: "no gzip"],
            start: { try printing(RealPeers.built("Servers/go_server.go"), [], $0, $1) }
        ),
        MatrixServer(
            name: "Jetty",
            programs: ["java"],
            needs: "test -e \(jars[0])",
            start: { server, folder in
                let arguments = ["-cp", jars.joined(separator: ":"), RealPeers.script("Servers/JettyServer.java")]
                return try printing("java", arguments, server, folder)
            }
        ),
        MatrixServer(
            name: "IIS and CDNs, by script",
            programs: [],
            start: { server, _ in
                let origin = try ScriptedOrigin(server, script: HabitualOrigin.serve)
                return Running(port: origin.port, owners: [origin])
            }
        ),
    ]

    private static let jars = ["jetty9-server", "jetty9-http", "jetty9-io", "jetty9-util", "servlet-api"]
        .map { "/usr/share/java/\($0).jar" }

    // MARK: Starting

    private static func nginx(_ name: String, _ version: String) -> MatrixServer {
        MatrixServer(
            name: name,
            programs: ["nginx"],
            version: version,
            takes: upload,
            chunked: compressed,
            start: { server, _ in
                let origin = try startNginx(server, http2: version == "2")
                return Running(port: origin.port, owners: [origin])
            }
        )
    }

    private static func startNginx(_ server: TestServer, http2: Bool) throws -> NginxOrigin {
        let directives = [
            "gzip on", "gzip_proxied any", "gzip_vary on", "gzip_types text/plain",
            "types { text/plain txt; } server_name _",
            "location = /refuse { client_max_body_size 1k; } keepalive_timeout 60s",
        ]
        return try NginxOrigin(server, http2: http2, directives: directives, files: files)
    }

    private static func apache(_ name: String, _ version: String) -> MatrixServer {
        MatrixServer(
            name: name,
            programs: ["apache2"],
            version: version,
            takes: upload,
            chunked: compressed,
            start: { server, _ in
                let refusal = ["Redirect 413 /refuse"]
                let origin = try ApacheServer(server, http2: version == "2", directives: refusal, files: files)
                return Running(port: origin.port, owners: [origin])
            }
        )
    }

    /// A program with a configuration file.
    private static func configured(
        _ name: String,
        _ folder: TemporaryFolder,
        _ arguments: (UInt16) -> [String],
        keeping origin: NginxOrigin,
        _ configuration: (UInt16) -> String
    ) throws -> Running {
        let program = try ServerProgram(name) { port in
            arguments(port) + [try folder.write(configuration(port), as: "configuration")]
        }
        return Running(port: program.port, owners: [program, origin])
    }

    /// A script that prints the port on which it listens.
    private static func printing(
        _ program: String,
        _ arguments: [String],
        _ server: TestServer,
        _ folder: TemporaryFolder
    ) throws -> Running {
        let identity = try server.write(to: folder, name: "server")
        let variables = [
            "CERTIFICATE": identity.certificate, "KEY": identity.key, "SITE": "\(folder.path)/files",
        ]
        let process = try ChildProcess(
            program.hasPrefix("/") ? program : try Programs.path(of: program),
            arguments,
            environment: Programs.environment.merging(variables) { $1 }
        )
        let port = try process.waitForOutput("a port") { text in
            text.hasSuffix("\n") ? UInt16(text.dropLast()) : nil
        }
        return Running(port: port, owners: [process])
    }
}
