import Foundation
import Glibc
import TestSupport
import Testing

/// A client of the matrix: what it is, how it is started, and what it can do.
struct MatrixClient: Sendable, CustomTestStringConvertible {
    enum Action: String, CaseIterable {
        case get, post, download, upload, redirect
        /// A wrong pin, as the client tells of it.
        case error
        /// Two requests, one connection.
        case keep
        /// https to a host that is intercepted.
        case intercept
        /// https, for which clients want a tunnel.
        case connect
    }

    let name: String
    /// A program, and the script in Tests/Clients that it runs; a script without one runs by itself.
    let program: String?
    let script: String
    /// Modules of Python that have to be there.
    var modules: [String] = []
    /// The first version that can.
    var version: (arguments: [String], least: [Int])?
    /// Features that the client cannot have.
    var lacks: Set<Action> = []
    /// Variables of its own.
    var environment: [String: String] = [:]

    var testDescription: String { name }

    static let all: [MatrixClient] = [
        MatrixClient(name: "curl", program: nil, script: "curl"),
        MatrixClient(name: "wget", program: nil, script: "wget"),
        // Connection: close with every request.
        MatrixClient(name: "Python urllib", program: python, script: "urllib_client.py", lacks: [.keep]),
        MatrixClient(name: "Python requests", program: python, script: "requests_client.py", modules: ["requests"]),
        MatrixClient(name: "Python httpx", program: python, script: "httpx_client.py", modules: ["httpx"]),
        // Closes a proxy's connection after each answer: "many HTTP proxies has buggy keepalive support".
        MatrixClient(
            name: "Python aiohttp",
            program: python,
            script: "aiohttp_client.py",
            modules: ["aiohttp"],
            lacks: [.keep]
        ),
        MatrixClient(name: "Node http", program: "node", script: "node_http.js"),
        MatrixClient(
            name: "Node fetch",
            program: "node",
            script: "node_fetch.mjs",
            version: (["-p", "process.versions.node"], [24]),
            environment: ["NODE_USE_ENV_PROXY": "1"]
        ),
        MatrixClient(name: "git", program: nil, script: "git", lacks: [.post, .upload, .keep]),
        MatrixClient(name: "apt", program: nil, script: "apt", lacks: [.post, .upload, .keep]),
        MatrixClient(name: "pip", program: nil, script: "pip", modules: ["pip"], lacks: [.post, .upload, .keep]),
        MatrixClient(name: "Java HttpClient", program: "java", script: "JavaClient.java"),
    ]

    /// Debian's, which has Debian's modules.
    private static let python = "/usr/bin/python3"

    static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Clients").path

    /// The program itself, by whose presence the client is judged.
    private var command: String {
        if let program { return program }
        return ["apt": "apt-get", "pip": Self.python][name] ?? name
    }

    /// Why it cannot be run on this machine; nil when it can.
    var absence: String? {
        guard command.hasPrefix("/") ? access(command, X_OK) == 0 : (try? Programs.path(of: command)) != nil else {
            return "\(command) is not installed"
        }
        for module in modules {
            let found = try? Programs.run(Self.python, ["-c", "import \(module)"])
            if found?.exitCode != 0 { return "Python has no module \(module)" }
        }
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
        let path = "\(Self.folder)/\(script)"
        // Certificates that the machine's user trusts would be used before those given to the client.
        let inherited = Programs.environment.filter { name, _ in
            !["SSL_", "CERT", "CA_BUNDLE", "CA_INFO", "CAINFO"].contains { name.contains($0) }
        }
        let variables = inherited.merging(environment) { $1 }.merging(variables) { $1 }
        guard let program else { return try Programs.run(path, [], environment: variables, seconds: 120) }
        return try Programs.run(program, [path], environment: variables, seconds: 120)
    }
}
