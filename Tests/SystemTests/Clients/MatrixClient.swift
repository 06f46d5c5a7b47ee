// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

/// A client of the matrix: what it is, how it is started, and what it can do.
struct MatrixClient: Sendable, CustomTestStringConvertible {
    /// What clients do; a column of the table each.
    enum Action: String, CaseIterable {
        case get = "GET"
        case post = "POST"
        /// Refused without credentials, and served with them.
        case auth = "407"
        case download = "8 MB down"
        case resume = "Range"
        case upload = "8 MB up"
        case redirect = "redirect"
        /// A wrong pin, as the client tells of it.
        case error = "wrong pin"
        /// Two requests, one connection.
        case keep = "kept"
        case socket = "`ws:`"
        case secureSocket = "`wss:`"
        /// https to a host that is intercepted.
        case intercept = "CONNECT"
        /// https, for which clients want a tunnel.
        case connect = "denied"
        case gateway = "gateway"
        /// Through a listener that speaks TLS.
        case tls = "TLS listener"

        /// As the scripts name it.
        var word: String { "\(self)" }
    }

    let name: String
    /// A program, and the script in Tests/Clients that it runs; a script without one runs by itself.
    let program: String?
    let script: String
    /// A command that succeeds where what the script needs is there.
    var needs: String?
    /// The first version that can.
    var version: (arguments: [String], least: [Int])?
    /// The body that it gets, and the status where it can tell.
    var hears = "hello 200"
    /// What it says where most say something else.
    var says: [Action: String] = [:]
    /// What it cannot do, with the reason.
    var lacks: [Action: String] = [:]
    /// What the table says of a thing that it does in a way of its own.
    var notes: [Action: String] = [:]
    /// It opens a tunnel for http, too: only a host that is intercepted can be asked for.
    var opensTunnels = false
    /// Variables of its own.
    var environment: [String: String] = [:]

    var testDescription: String { name }
    /// Whether it asks for a repository or a package.
    var fetchesPackages: Bool { hears != "hello 200" }

    private static let noSocket: [Action: String] = [.socket: "no WebSocket", .secureSocket: "no WebSocket"]
    private static let noUpload: [Action: String] = noSocket.merging([
        .post: "downloads only", .upload: "downloads only", .keep: "a process each time",
    ]) { $1 }
    private static let plainProxies: [Action: String] = [.tls: "proxies in the clear only"]

    private static func lacking(_ all: [Action: String]...) -> [Action: String] {
        all.reduce(into: [:]) { $0.merge($1) { $1 } }
    }

    private static let webSocketOnly = Dictionary(
        uniqueKeysWithValues: Action.allCases.filter { ![.socket, .secureSocket, .gateway].contains($0) }
            .map { ($0, "WebSocket only") }
    )

    static let all: [MatrixClient] = [
        MatrixClient(name: "curl", program: nil, script: "curl", lacks: noSocket, notes: [.upload: "✓ `Expect`"]),
        MatrixClient(name: "wget", program: nil, script: "wget", lacks: lacking(noSocket, plainProxies)),
        MatrixClient(
            name: "Python urllib",
            program: RealPeers.python,
            script: "urllib_client.py",
            lacks: lacking(noSocket, plainProxies, [.keep: "closes by itself"])
        ),
        MatrixClient(
            name: "Python requests",
            program: RealPeers.python,
            script: "requests_client.py",
            needs: "\(RealPeers.python) -c 'import requests'",
            lacks: noSocket,
            notes: [.upload: "✓ chunked"]
        ),
        MatrixClient(
            name: "Python httpx",
            program: RealPeers.python,
            script: "httpx_client.py",
            needs: "\(RealPeers.python) -c 'import httpx'",
            lacks: lacking(noSocket, [.tls: "its CA can be named from 0.26 on"])
        ),
        MatrixClient(
            name: "Python aiohttp",
            program: RealPeers.python,
            script: "aiohttp_client.py",
            needs: "\(RealPeers.python) -c 'import aiohttp'",
            // "many HTTP proxies has buggy keepalive support"
            lacks: [.keep: "closes by itself"]
        ),
        MatrixClient(
            name: "Python websockets",
            program: RealPeers.python,
            script: "websockets_client.py",
            needs: "\(RealPeers.python) -c 'import websockets'",
            says: [.gateway: "hello"],
            lacks: webSocketOnly,
            notes: [.socket: "✓ CONNECT", .secureSocket: "✓ CONNECT"]
        ),
        MatrixClient(
            name: "Python boto3",
            program: RealPeers.python,
            script: "boto3_client.py",
            needs: "\(RealPeers.python) -c 'import boto3'",
            says: [.error: "502", .connect: "refused"],
            lacks: lacking(noSocket, [.post: "S3 only", .redirect: "S3 only"]),
            notes: [.error: "502", .upload: "✓ `Expect`", .connect: "an error without status"]
        ),
        MatrixClient(
            name: "Node http",
            program: "node",
            script: "node_http.js",
            notes: [
                .upload: "✓ chunked", .redirect: "✓ by hand", .socket: "✓ by hand", .secureSocket: "✓ by hand",
            ]
        ),
        MatrixClient(
            name: "Node fetch",
            program: "node",
            script: "node_fetch.mjs",
            version: (["-p", "process.versions.node"], [24]),
            lacks: lacking(noSocket, [.auth: "", .resume: "", .gateway: "", .tls: ""]),
            environment: ["NODE_USE_ENV_PROXY": "1"]
        ),
        MatrixClient(
            name: "undici",
            program: "node",
            script: "undici_client.js",
            needs: "test -e /usr/share/nodejs/undici/package.json",
            says: [.auth: "refused 200", .error: "502", .connect: "refused"],
            lacks: lacking(noSocket, [.keep: "several tunnels"]),
            notes: [.error: "502", .connect: "an error without status"],
            opensTunnels: true,
            environment: ["NODE_PATH": "/usr/share/nodejs"]
        ),
        MatrixClient(
            name: "Java HttpClient",
            program: "java",
            script: "JavaClient.java",
            lacks: plainProxies,
            notes: [.upload: "✓ `Expect`", .socket: "✓ CONNECT", .secureSocket: "✓ CONNECT"]
        ),
        MatrixClient(
            name: "Java HttpURLConnection",
            program: "java",
            script: "JavaConnection.java",
            lacks: lacking(noSocket, plainProxies),
            notes: [.error: "502, as a page"]
        ),
        MatrixClient(
            name: "PHP curl",
            program: "php",
            script: "php_curl.php",
            needs: "php -m | grep -qx curl",
            lacks: noSocket
        ),
        MatrixClient(
            name: "PHP streams",
            program: "php",
            script: "php_streams.php",
            says: [.connect: "refused"],
            lacks: lacking(noSocket, plainProxies, [.keep: "closes by itself"]),
            notes: [.connect: "an error without status"]
        ),
        MatrixClient(
            name: "Ruby net/http",
            program: "ruby",
            script: "ruby_client.rb",
            lacks: lacking(noSocket, plainProxies),
            notes: [.upload: "✓ chunked", .redirect: "✓ by hand"]
        ),
        MatrixClient(
            name: "Go net/http",
            program: "go",
            script: "go_client.go",
            lacks: noSocket,
            notes: [.upload: "✓ chunked"]
        ),
        MatrixClient(
            name: "Perl LWP",
            program: "perl",
            script: "perl_client.pl",
            needs: "perl -MLWP::Protocol::https -e 1",
            lacks: noSocket
        ),
        MatrixClient(
            name: "git",
            program: nil,
            script: "git",
            hears: "from the repository",
            says: [.auth: "407 1", .error: "502"],
            lacks: lacking(noUpload, [.resume: "starts again"]),
            notes: [.error: "502"]
        ),
        MatrixClient(
            name: "apt",
            program: nil,
            script: "apt",
            hears: "pinned-package",
            says: [.auth: "407 1", .error: "502"],
            lacks: noUpload,
            notes: [.error: "502"]
        ),
        MatrixClient(
            name: "pip",
            program: nil,
            script: "pip",
            needs: "\(RealPeers.python) -c 'import pip'",
            hears: "pinned_package-1.0-py3-none-any.whl",
            says: [.auth: "407 pinned_package-1.0-py3-none-any.whl", .error: "502"],
            lacks: lacking(noUpload, [.resume: "starts again"]),
            notes: [.error: "502"]
        ),
    ]

    /// A cell of the table.
    func cell(_ action: Action) -> String { lacks[action] ?? notes[action] ?? "✓" }

    /// What its script has to print for an action.
    func expected(_ action: Action, digest: String, count: Int) -> String {
        if let said = says[action] { return said }
        let host = opensTunnels ? ClientMatrixTests.innerHost : Stage.host
        return switch action {
        case .get, .intercept, .gateway, .tls: hears
        case .redirect: fetchesPackages ? hears : "hello 200 http://\(host)/hello"
        case .post: "POST:some fields 200"
        case .auth: "407 200"
        case .download, .resume: digest
        case .upload: "\(count) intact"
        case .error: "502 pin_mismatch"
        case .keep: "done"
        case .socket, .secureSocket: "hello"
        case .connect: "403"
        }
    }

    // MARK: Running

    /// The program itself, by whose presence the client is judged.
    private var command: String { program ?? ["apt": "apt-get", "pip": RealPeers.python][name] ?? name }

    /// Why it cannot be run on this machine; nil when it can.
    var absence: String? {
        guard command.hasPrefix("/") ? access(command, X_OK) == 0 : (try? Programs.path(of: command)) != nil else {
            return "\(command) is not installed"
        }
        if let needs, (try? Programs.run("sh", ["-c", needs]))?.exitCode != 0 { return "\(needs): failed" }
        if let version {
            let said = (try? Programs.run(command, version.arguments))?.output ?? ""
            let numbers = said.split { !$0.isNumber }.compactMap { Int($0) }
            if numbers.lexicographicallyPrecedes(version.least) {
                return "\(command) is \(said.trimmingCharacters(in: .whitespacesAndNewlines)), not \(version.least[0])"
            }
        }
        return nil
    }

    /// Whether the machine can have it: a version that Debian does not have yet is no lack of the machine's.
    var isInstallable: Bool { version == nil }

    func run(_ variables: [String: String]) throws -> Programs.Finished {
        let path = RealPeers.script("Clients/\(script)")
        // Certificates that the machine's user trusts would be used before those given to the client.
        let inherited = Programs.environment.filter { name, _ in
            !["SSL_", "CERT", "CA_BUNDLE", "CA_INFO", "CAINFO"].contains { name.contains($0) }
        }
        // For a program of a second, Java's second compiler and its threads for garbage take as long as the program.
        let quick = program == "java" ? ["JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"] : [:]
        let variables = inherited.merging(quick) { $1 }.merging(environment) { $1 }.merging(variables) { $1 }
        let program = program == "go" ? try RealPeers.built("Clients/\(script)") : program
        guard let program else { return try Programs.run(path, [], environment: variables, seconds: 120) }
        return try Programs.run(program, [path], environment: variables, seconds: 120)
    }
}
