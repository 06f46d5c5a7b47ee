// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport

/// The resources for the clients of the matrix: small and large responses, a place for uploads, a redirect, and the
/// files that git, apt and pip need.
struct MatrixOrigin {
    let large = patternBytes(8 << 20)
    private let site: TemporaryFolder
    private let origin: ScriptedOrigin

    var port: UInt16 { origin.port }

    init(_ server: TestServer, withPackages: Bool) throws {
        let site = try TemporaryFolder()
        self.site = site
        if withPackages {
            try Self.makeRepository(in: site, large)
            try Self.makePackages(in: site, large)
            try Self.makeNodePackage(in: site)
        }
        let root = "\(site.path)/files"
        let large = large
        origin = try ScriptedOrigin(server) { connection in
            while let request = try connection.readRequestHead() {
                if request["Expect"] != nil { try connection.write("HTTP/1.1 100 Continue\r\n\r\n") }
                if request.target == "/socket" { return try Self.echoFrames(request, on: connection) }
                try Self.respond(try connection.readBody(of: request), large: large, root: root, on: connection)
            }
        }
    }

    private static func respond(
        _ request: HTTPMessage,
        large: [UInt8],
        root: String,
        on connection: OriginConnection
    ) throws {
        var path = request.target.prefix { $0 != "?" }
        // Objects of a bucket of S3.
        let isObject = path.hasPrefix("/bucket/")
        if isObject { path = path.dropFirst(7) }
        switch path {
        case "/hello": try connection.respond("hello")
        case "/echo": try connection.respond("\(request.method):\(request.text)")
        case "/large": try send(large, of: request, on: connection)
        case "/upload":
            let state = "\(request.body.count) \(request.body == large ? "intact" : "damaged")"
            try connection.respond(isObject ? "" : state, fields: ["ETag: \"\(state)\""])
        case "/redirect": try redirect(request, to: "/hello", on: connection)
        case _ where path.hasPrefix("/keep/"): try connection.respond("kept")
        case _ where path.hasPrefix("/moved/"):
            try redirect(request, to: "/files" + request.target.dropFirst(6), on: connection)
        case _ where path.hasPrefix("/files/") && !path.contains(".."):
            try sendFile("\(root)\(path.dropFirst(6))", of: request, on: connection)
        default: try connection.respond("nothing there", status: "404 Not Found")
        }
    }

    /// To the origin's own https, as origins do.
    private static func redirect(_ request: HTTPMessage, to path: String, on connection: OriginConnection) throws {
        let location = "Location: https://\(request["Host"] ?? Stage.host)\(path)"
        try connection.respond("", status: "302 Found", fields: [location])
    }

    private static func sendFile(_ path: String, of request: HTTPMessage, on connection: OriginConnection) throws {
        var path = path.removingPercentEncoding ?? path
        var isFolder: ObjCBool = false
        if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder.boolValue {
            path += "/index.html"
        }
        guard let data = FileManager.default.contents(atPath: path) else {
            return try connection.respond("nothing there", status: "404 Not Found")
        }
        try send([UInt8](data), of: request, on: connection, isPage: path.hasSuffix(".html"))
    }

    private static func send(
        _ body: [UInt8],
        of request: HTTPMessage,
        on connection: OriginConnection,
        isPage: Bool = false
    ) throws {
        let type = isPage ? "text/html" : "application/octet-stream"
        // A range without an end, as for a download that goes on.
        let start = request["Range"].flatMap { Int($0.dropFirst(6).prefix { $0 != "-" }) } ?? 0
        let status = start == 0 ? "200 OK" : "206 Partial Content"
        let range = start == 0 ? "" : "Content-Range: bytes \(start)-\(body.count - 1)/\(body.count)\r\n"
        try connection.write(
            "HTTP/1.1 \(status)\r\nContent-Type: \(type)\r\n\(range)Content-Length: \(body.count - start)\r\n\r\n"
        )
        if request.method != "HEAD" { try connection.write(Array(body[start...])) }
    }

    /// A WebSocket that sends each small frame back, unmasked, until one that closes.
    private static func echoFrames(_ request: HTTPMessage, on connection: OriginConnection) throws {
        let key = (request["Sec-WebSocket-Key"] ?? "") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        let script = #"printf %s "$0" | openssl dgst -sha1 -binary | base64"#
        let accepted = try Programs.run("sh", ["-c", script, key]).output
        try connection.write(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                + "Sec-WebSocket-Accept: \(accepted.prefix { $0 != "\n" })\r\n\r\n"
        )
        var bytes: [UInt8] = []
        while true {
            // Two bytes, four of the mask, then the payload (RFC 6455, 5.2).
            while bytes.count < 6 || bytes.count < 6 + Int(bytes[1] & 127) {
                let more = connection.read()
                if more.isEmpty { return }
                bytes += more
            }
            let count = Int(bytes[1] & 127)
            let payload = (0..<count).map { bytes[6 + $0] ^ bytes[2 + $0 % 4] }
            try connection.write([bytes[0], UInt8(count)] + payload)
            if bytes[0] & 15 == 8 { return }
            bytes.removeFirst(6 + count)
        }
    }

    private static func run(_ program: String, _ arguments: String..., folder: TemporaryFolder) throws {
        let variables = Programs.environment.merging([
            "HOME": folder.path, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.example",
            "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.example",
        ]) { $1 }
        let finished = try Programs.run(program, arguments, environment: variables, folder: folder.path)
        guard finished.exitCode == 0 else {
            throw ChildProcess.Failure(description: "\(program) \(arguments): \(finished.errors)")
        }
    }

    private static func makeRepository(in site: TemporaryFolder, _ large: [UInt8]) throws {
        try site.write("from the repository", as: "work/file.txt")
        try site.write(bytes: large, as: "work/large")
        try run("git", "init", "-q", "work", folder: site)
        try run("git", "-C", "work", "add", ".", folder: site)
        try run("git", "-C", "work", "commit", "-q", "-m", "first", folder: site)
        try FileManager.default.createDirectory(atPath: "\(site.path)/files", withIntermediateDirectories: true)
        try run("git", "clone", "-q", "--bare", "work", "files/repository.git", folder: site)
        try run("git", "-C", "files/repository.git", "update-server-info", folder: site)
    }

    /// A scoped package, whose name npm writes with an encoded slash.
    private static func makeNodePackage(in site: TemporaryFolder) throws {
        let document = #"{"name": "@pinned/package", "version": "1.0.0"}"#
        try site.write(document, as: "node/package/package.json")
        try site.write("", as: "files/npm/@pinned/package/index.html")
        let tarball = "files/npm/@pinned/package-1.0.0.tgz"
        try run("tar", "-czf", tarball, "-C", "node", "package", folder: site)
        let digest = try Programs.run("sha1sum", ["\(site.path)/\(tarball)"]).output.prefix(40)
        let location = "http://\(Stage.host)/\(tarball)"
        let version =
            #"{"name": "@pinned/package", "version": "1.0.0", "dist": {"tarball": "\#(location)", "shasum": "\#(digest)"}}"#
        try site.write(
            #"{"name": "@pinned/package", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": \#(version)}}"#,
            as: "files/npm/@pinned/package/index.html"
        )
    }

    /// A Debian package and a wheel.
    private static func makePackages(in site: TemporaryFolder, _ large: [UInt8]) throws {
        try site.write(
            "Package: pinned-package\nVersion: 1.0\nArchitecture: all\nMaintainer: A <a@b.example>\nDescription: test\n",
            as: "package/DEBIAN/control"
        )
        try site.write(bytes: large, as: "package/usr/share/large")
        try FileManager.default.createDirectory(atPath: "\(site.path)/files/apt", withIntermediateDirectories: true)
        let package = "files/apt/pinned-package_1.0_all.deb"
        try run("dpkg-deb", "-Znone", "--root-owner-group", "-b", "package", package, folder: site)
        let bytes = try Data(contentsOf: URL(fileURLWithPath: "\(site.path)/\(package)"))
        let digest = try Programs.run("sha256sum", ["\(site.path)/\(package)"]).output.prefix(64)
        func index(_ file: String) -> String {
            """
            Package: pinned-package
            Version: 1.0
            Architecture: all
            Maintainer: A <a@b.example>
            Filename: \(file)
            Size: \(bytes.count)
            SHA256: \(digest)
            Description: test

            """
        }
        try site.write(index("./pinned-package_1.0_all.deb"), as: "files/apt/Packages")
        // With a suite and a component, as most repositories are.
        try site.write(index("apt/pinned-package_1.0_all.deb"), as: "files/dists/stable/main/binary-all/Packages")
        let wheel = "pinned_package-1.0-py3-none-any.whl"
        try site.write("", as: "wheel/pinned_package/__init__.py")
        try site.write(bytes: large, as: "wheel/pinned_package/large")
        let information = "wheel/pinned_package-1.0.dist-info"
        try site.write("Metadata-Version: 2.1\nName: pinned-package\nVersion: 1.0\n", as: "\(information)/METADATA")
        try site.write(
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            as: "\(information)/WHEEL"
        )
        try site.write("", as: "\(information)/RECORD")
        let script = "import shutil; shutil.make_archive('w', 'zip', 'wheel'); shutil.move('w.zip', '\(wheel)')"
        try run("/usr/bin/python3", "-c", script, folder: site)
        try site.write("<a href=\"\(wheel)\">\(wheel)</a>", as: "files/simple/pinned-package/index.html")
        try FileManager.default.moveItem(
            atPath: "\(site.path)/\(wheel)",
            toPath: "\(site.path)/files/simple/pinned-package/\(wheel)"
        )
    }
}
