// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// nginx as an origin over TLS, with its own configuration and folder.
///
/// `/echo/…` responds with the request's method and target, `/plain` with fixed text, `/redirect` redirects to `/plain`
/// over https, `/empty` responds with 204, `/session` with the TLS version, whether the session was resumed (`r`,
/// otherwise `.`) and the connection's number, and `/files/` serves the folder `files` and takes PUT, COPY and MOVE.
package final class NginxOrigin: Sendable {
    package let port: UInt16
    package let folder: TemporaryFolder
    private let process: ChildProcess

    /// - Parameters:
    ///   - directives: further ones of the server.
    ///   - files: served under `/files/`, by name.
    ///   - staple: an OCSP response (DER) for clients that request one; nginx sends it unchanged.
    package init(
        _ server: TestServer,
        http2: Bool = false,
        directives: [String] = [],
        files: [String: [UInt8]] = [:],
        staple: [UInt8]? = nil
    ) throws {
        let folder = try TemporaryFolder()
        self.folder = folder
        let identity = try server.write(to: folder, name: "server")
        let stapling =
            try staple.map { try folder.write(bytes: $0, as: "staple.der") }
            .map { "ssl_stapling on; ssl_stapling_file \($0);" } ?? ""
        for (name, bytes) in files {
            try folder.write(bytes: bytes, as: "files/\(name)")
            // The value of Last-Modified is deterministic.
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSince1970: 1_700_000_000)],
                ofItemAtPath: "\(folder.path)/files/\(name)"
            )
        }
        try FileManager.default.createDirectory(atPath: "\(folder.path)/files", withIntermediateDirectories: true)
        try FileManager.default.createDirectory(atPath: "\(folder.path)/temporary", withIntermediateDirectories: true)
        // The socket is bound here and passed on in the way in which nginx passes it to its own successor (NGINX in the
        // environment), so that no other process can take the port meanwhile.
        let listening = try TestSocket.listen()
        defer { close(listening.descriptor) }
        port = listening.port
        try folder.write(
            Self.configuration(
                folder.path,
                port,
                http2: http2,
                directives.map { "\($0);" } + [stapling],
                identity.certificate,
                identity.key
            ),
            as: "nginx.conf"
        )
        process = try ChildProcess(
            try Programs.path(of: "nginx"),
            ["-p", folder.path, "-e", "stderr", "-c", "\(folder.path)/nginx.conf"],
            environment: Programs.environment.merging(["NGINX": "3;"]) { $1 },
            passing: [listening.descriptor]
        )
        try waitUntilReady()
    }

    private func waitUntilReady() throws {
        let path = "\(folder.path)/status.sock"
        try Patience.poll(for: "nginx to start") {
            if let code = process.exitCode {
                throw ChildProcess.Failure(description: "nginx ended with \(code): \(process.errors)")
            }
            guard let client = try? TestClient(unixPath: path) else { return nil as Bool? }
            try client.send("GET / HTTP/1.1\r\nHost: status\r\nConnection: close\r\n\r\n")
            return try client.readResponse().status == 200
        }
    }

    /// The number of requests that it has begun to handle, including the one of this query.
    package func requestCount() throws -> Int { try status(2) }

    /// The number of connections that it has accepted, including the one of this query.
    package func connectionCount() throws -> Int { try status(0) }

    private func status(_ column: Int) throws -> Int {
        let client = try TestClient(unixPath: "\(folder.path)/status.sock")
        try client.send("GET / HTTP/1.1\r\nHost: status\r\nConnection: close\r\n\r\n")
        let lines = try client.readResponse().text.split(separator: "\n")
        // "server accepts handled requests" in the line before.
        guard lines.count > 2 else { throw MessageReader.Malformed(description: "no status of nginx: \(lines)") }
        let words = lines[2].split(separator: " ")
        guard words.count == 3, let count = Int(words[column]) else {
            throw MessageReader.Malformed(description: "no status of nginx: \(lines)")
        }
        return count
    }

    /// The contents of a file under `/files/`.
    package func file(_ name: String) throws -> [UInt8] {
        [UInt8](try Data(contentsOf: URL(fileURLWithPath: "\(folder.path)/files/\(name)")))
    }

    /// A sparse file of zeros, served under `/files/`.
    package func makeSparseFile(_ name: String, bytes: Int) throws {
        let path = "\(folder.path)/files/\(name)"
        guard FileManager.default.createFile(atPath: path, contents: nil), truncate(path, bytes) == 0 else {
            throw TestSocket.Failure("truncate")
        }
    }

    private static func configuration(
        _ folder: String,
        _ port: UInt16,
        http2: Bool,
        _ directives: [String],
        _ certificate: String,
        _ key: String
    ) -> String {
        """
        \(geteuid() == 0 ? "user root;" : "")
        daemon off;
        worker_processes 1;
        worker_rlimit_nofile 8192;
        pid \(folder)/nginx.pid;
        events { worker_connections 4096; }
        http {
            access_log off;
            client_max_body_size 0;
            client_body_temp_path \(folder)/temporary/body;
            proxy_temp_path \(folder)/temporary/proxy;
            fastcgi_temp_path \(folder)/temporary/fastcgi;
            uwsgi_temp_path \(folder)/temporary/uwsgi;
            scgi_temp_path \(folder)/temporary/scgi;
            keepalive_requests 1000000;
            default_type application/octet-stream;
            sendfile on;
            server_tokens off;
            server {
                listen 127.0.0.1:\(port) ssl\(http2 ? " http2" : "");
                ssl_certificate \(certificate);
                ssl_certificate_key \(key);
                root \(folder);
                \(directives.joined(separator: "\n"))
                location = /session { return 200 "$ssl_protocol $ssl_session_reused $connection\\n"; }
                location = / { return 200 "root\\n"; }
                location = /plain {
                    add_header X-Origin nginx;
                    add_header Set-Cookie "a=1; Secure; Path=/";
                    add_header Strict-Transport-Security max-age=600;
                    return 200 "plain text from the origin\\n";
                }
                location /echo/ { return 200 "$request_method $request_uri\\n"; }
                location = /redirect { return 302 https://$host/plain; }
                location /files/ { dav_methods PUT COPY MOVE; }
                location = /empty { return 204; }
            }
            server {
                listen unix:\(folder)/status.sock;
                location = / { stub_status; }
            }
        }

        """
    }
}
