// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import ServerTrust

/// The files from which the program of `exec --intercept` reads the CA of this run, in a temporary folder for its user alone.
struct AnchorFiles {
    private let folder: String

    /// The anchors of the system, and the CA.
    var bundle: String { "\(folder)/anchors.pem" }
    /// The CA alone.
    var authority: String { "\(folder)/ca.pem" }
    /// The same anchors for Java.
    var javaStore: String { "\(folder)/anchors.p12" }
    /// Java opens no store without one. It protects nothing: certificates are not secret.
    static let javaPassword = "changeit"

    init(_ authority: Certificate) throws(CommandFailure) {
        // A system without anchors has none to keep.
        let system = (try? TrustAnchorLibrary().systemBundle()) ?? []
        let all = system + [authority]
        let java: [UInt8]
        do throws(OpenSSLError) {
            java = try TrustStore.pkcs12(all, password: Self.javaPassword)
        } catch {
            throw CommandFailure(.internal, "the trust store for Java cannot be made: \(error)")
        }
        let parent = getenv("TMPDIR").map { String(cString: $0) }.flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/tmp"
        // mkdtemp(3) makes it with mode 0700.
        var template = Array("\(parent)/pinproxy-exec-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            let reason = String(cString: strerror(errno))
            throw CommandFailure(
                .failed,
                "no temporary folder can be made in \(Arguments.shown(path: parent)): \(reason)",
                remedy: "let TMPDIR name a folder that the user of this process may write to"
            )
        }
        folder = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        do throws(CommandFailure) {
            try write(Array(all.map(\.pem).joined().utf8), to: bundle)
            try write(Array(authority.pem.utf8), to: self.authority)
            try write(java, to: javaStore)
        } catch {
            remove()
            throw error
        }
    }

    private func write(_ bytes: [UInt8], to path: String) throws(CommandFailure) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        var code = descriptor < 0 ? errno : bytes.withUnsafeBytes { DescriptorOutput.write($0, to: descriptor) }
        if descriptor >= 0, close(descriptor) != 0, code == 0 { code = errno }
        guard code == 0 else {
            throw CommandFailure(.failed, "\(path) cannot be written: \(String(cString: strerror(code)))")
        }
    }

    /// Removes the files, and the folder unless the program has left something of its own there.
    func remove() {
        for path in [bundle, authority, javaStore] { unlink(path) }
        rmdir(folder)
    }

    /// The variables by which programs find the files.
    ///
    /// - Parameter environment: what the program would get without them.
    func variables(over environment: [String], proxy: (host: String, port: UInt16)) -> [(name: String, value: String)] {
        // OpenSSL and Go, curl, Python's requests, pip, git, Deno, cargo, AWS, gRPC, and npm where its settings name a file.
        let names = [
            "SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "DENO_CERT",
            "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "npm_config_cafile",
        ]
        let java = "JAVA_TOOL_OPTIONS"
        let options =
            environment.first { $0.hasPrefix("\(java)=") }.map { [String($0.dropFirst(java.count + 1))] } ?? []
        return names.map { ($0, bundle) } + [
            // Node has anchors of its own beside it, and asks for a proxy only where it is told to.
            ("NODE_EXTRA_CA_CERTS", authority), ("NODE_USE_ENV_PROXY", "1"),
            // git gives up at the first 407 otherwise.
            ("GIT_HTTP_PROXY_AUTHMETHOD", "basic"),
            (java, (options + javaOptions(proxy)).joined(separator: " ")),
        ]
    }

    /// Java reads no variable for its proxy or its anchors but its options.
    private func javaOptions(_ proxy: (host: String, port: UInt16)) -> [String] {
        let store = javaStore.contains { $0.isWhitespace } ? "\"\(javaStore)\"" : javaStore
        return [
            "-Djavax.net.ssl.trustStore=\(store)", "-Djavax.net.ssl.trustStoreType=PKCS12",
            "-Djavax.net.ssl.trustStorePassword=\(Self.javaPassword)", "-Dhttp.nonProxyHosts=",
        ] + ["http", "https"].flatMap { ["-D\($0).proxyHost=\(proxy.host)", "-D\($0).proxyPort=\(proxy.port)"] }
    }
}
