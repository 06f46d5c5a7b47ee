// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("ca init and ca show", .onOwnThreads)
struct CommandLineAuthorityTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func pinproxy(_ arguments: String...) throws -> Programs.Finished {
        try Programs.run(try Programs.built("pinproxy"), arguments)
    }

    private func mode(_ name: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: "\(folder.path)/\(name)")[.posixPermissions] as? Int
    }

    @Test("init makes a private key and a certificate for its hosts alone")
    func makes() throws {
        let made = try pinproxy("ca", "init", "--dir", folder.path, "API.example.com", "example.org.")
        #expect(made.exitCode == 0, "\(made.errors)")
        #expect(try mode("pinproxy-ca.key") == 0o600)
        #expect(try mode("pinproxy-ca.pem") == 0o644)
        #expect(made.output.contains("api.example.com, example.org"))
        let text = try Programs.run(
            "openssl",
            ["x509", "-in", "\(folder.path)/pinproxy-ca.pem", "-noout", "-ext", "nameConstraints,basicConstraints"]
        ).output
        #expect(text.contains("Name Constraints: critical"))
        #expect(text.contains("DNS:api.example.com"))
        #expect(text.contains("IP:0.0.0.0/0.0.0.0"))
        #expect(text.contains("pathlen:0"))
    }

    @Test("init overwrites nothing, and leaves no incomplete pair")
    func keeps() throws {
        #expect(try pinproxy("ca", "init", "--dir", folder.path, "example.com").exitCode == 0)
        let before = try String(contentsOfFile: "\(folder.path)/pinproxy-ca.key", encoding: .utf8)
        let again = try pinproxy("ca", "init", "--dir", folder.path, "example.com")
        #expect(again.exitCode == 1)
        #expect(again.errors.contains("exists"))
        #expect(try String(contentsOfFile: "\(folder.path)/pinproxy-ca.key", encoding: .utf8) == before)
        try FileManager.default.removeItem(atPath: "\(folder.path)/pinproxy-ca.key")
        #expect(try pinproxy("ca", "init", "--dir", folder.path, "example.com").exitCode == 1)
        #expect(!FileManager.default.fileExists(atPath: "\(folder.path)/pinproxy-ca.key"))
    }

    @Test("init takes its files from the configuration")
    func readsConfiguration() throws {
        let path = try folder.write(
            #"{ "version": 1, "interception": { "certificate": "ca.pem", "key": "ca.key" } }"#,
            as: "config.json"
        )
        let made = try pinproxy("ca", "init", "--config", path, "example.com")
        #expect(made.exitCode == 0, "\(made.errors)")
        #expect(try mode("ca.key") == 0o600)
        let shown = try pinproxy("ca", "show", "--config", path)
        #expect(shown.output == made.output)
        let checked = try pinproxy("check", "--config", path)
        #expect(checked.exitCode == 0, "\(checked.errors)")
    }

    @Test("show prints the fingerprint and how to trust it")
    func shows() throws {
        #expect(try pinproxy("ca", "init", "--dir", folder.path, "example.com").exitCode == 0)
        let shown = try pinproxy("ca", "show", "--dir", folder.path)
        let fingerprint = try Programs.run(
            "openssl",
            ["x509", "-in", "\(folder.path)/pinproxy-ca.pem", "-noout", "-fingerprint", "-sha256"]
        ).output
        let digits = try #require(fingerprint.split(separator: "=").last)
        #expect(shown.output.contains(digits.trimmingCharacters(in: .newlines)))
        for word in [
            "update-ca-certificates", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "keytool", "sslCAInfo", "--cacert",
        ] {
            #expect(shown.output.contains(word), "\(word)")
        }
    }

    @Test("a configuration without its local CA says how to make it")
    func missing() throws {
        let path = try folder.write(
            #"{ "version": 1, "interception": { "certificate": "ca.pem", "key": "ca.key" } }"#,
            as: "config.json"
        )
        let checked = try pinproxy("check", "--config", path)
        #expect(checked.exitCode == 78)
        for key in ["certificate", "key"] {
            #expect(checked.errors.contains("/interception/\(key): the file"))
        }
        #expect(checked.errors.contains("make the local CA, certificate and key: pinproxy ca init --config FILE"))
    }

    @Test("show says which variables replace a program's authorities")
    func replacements() throws {
        #expect(try pinproxy("ca", "init", "--dir", folder.path, "example.com").exitCode == 0)
        let parts = try pinproxy("ca", "show", "--dir", folder.path).output.split(separator: "These REPLACE")
        #expect(parts.count == 2)
        for word in ["SSL_CERT_FILE=", "REQUESTS_CA_BUNDLE=", "CURL_CA_BUNDLE=", "ca-certificates.crt"] {
            #expect(!parts[0].contains(word) && parts[1].contains(word), "\(word)")
        }
        for word in ["NODE_EXTRA_CA_CERTS=", "keytool", "sslCAInfo"] {
            #expect(parts[0].contains(word) && !parts[1].split(separator: "For the whole")[0].contains(word), "\(word)")
        }
    }

    @Test("mistakes have their remedy")
    func mistakes() throws {
        #expect(try pinproxy("ca", "init", "--dir", folder.path).exitCode == 64)
        #expect(try pinproxy("ca", "init", "--dir", folder.path, "not a host").exitCode == 64)
        #expect(try pinproxy("ca", "init", "--dir", folder.path, "--config", "x", "example.com").exitCode == 64)
        #expect(try pinproxy("ca", "init", "--config", "\(folder.path)/gone.json", "example.com").exitCode == 66)
        #expect(try pinproxy("ca", "show", "--dir", folder.path).exitCode == 66)
        let path = try folder.write(#"{ "version": 1 }"#, as: "config.json")
        let silent = try pinproxy("ca", "init", "--config", path, "example.com")
        #expect(silent.exitCode == 78)
        #expect(silent.errors.contains("interception"))
    }
}
