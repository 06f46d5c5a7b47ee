// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@testable import pinproxy

@Suite("Command line: pins", .onOwnThreads)
struct CommandLinePinsTests {
    // MARK: pins from

    @Test("pins from prints a line for each certificate, request and key")
    func pinsFrom() throws {
        let folder = try TemporaryFolder()
        let server = try TestPKI().server("api.test")
        let key = server.identity.key
        let files = [
            try folder.write(server.chainPEM, as: "chain.pem"),
            try folder.write(bytes: server.certificate.derBytes, as: "server.der"),
            try folder.write(try key.certificateRequestPEM(commonName: "api.test"), as: "server.csr"),
            try folder.write(key.privateKeyPEM, as: "server.key"),
            try folder.write(bytes: key.publicKeyDER, as: "server.pub"),
        ]
        let finished = try pinproxy(["pins", "from"] + files)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        let pin = server.pin
        #expect(
            finished.output == """
                \(pin)  CN = api.test (EC P-256)
                \(server.chain[1].publicKeyPin)  CN = pinproxy test intermediate (EC P-256)
                \(pin)  CN = api.test (EC P-256)
                \(pin)  CN = api.test (EC P-256, request)
                \(pin)  EC P-256, private key
                \(pin)  EC P-256, public key

                """
        )
    }

    @Test("pins from reads the standard input and all private key forms")
    func inputAndPrivateKeys() throws {
        let folder = try TemporaryFolder()
        let server = try TestPKI().server("api.test", key: .rsa(bits: 2048))
        let key = try folder.write(server.privateKeyPEM, as: "server.key")
        let expected = "\(server.pin)  RSA 2048, private key\n"
        let (binary, old) = (try Programs.built("pinproxy"), "\(folder.path)/pkcs1.key")
        let input = try Programs.run("/bin/sh", ["-c", "exec \"$1\" pins from - < \"$0\"", key, binary])
        #expect(input.output == expected, "\(input.errors)")
        // PKCS #1, as older programs write it; and an EC key with its parameters before it.
        #expect(try Programs.run("openssl", ["rsa", "-in", key, "-traditional", "-out", old]).exitCode == 0)
        #expect(try String(contentsOfFile: old, encoding: .utf8).hasPrefix("-----BEGIN RSA PRIVATE KEY-----"))
        #expect(try pinproxy("pins", "from", old).output == expected)
        let curve = "\(folder.path)/ec.key"
        let made = try Programs.run("openssl", ["ecparam", "-name", "secp384r1", "-genkey", "-out", curve])
        #expect(made.exitCode == 0)
        #expect(try pinproxy("pins", "from", curve).output.hasSuffix("  EC P-384, private key\n"))

        let secret = try folder.write(server.identity.key.privateKeyPEM(password: "secret"), as: "secret.key")
        let refused = try pinproxy("pins", "from", secret)
        #expect(refused.exitCode == 1)
        #expect(refused.output.isEmpty)
        #expect(refused.errors.contains("a private key that is protected by a password"))
        #expect(refused.errors.contains("openssl pkey -in KEY -pubout"))
    }

    @Test("a missing file ends with 66, one without a key with 1")
    func badFiles() throws {
        let folder = try TemporaryFolder()
        let server = try TestPKI().server("api.test")
        let good = try folder.write(bytes: server.certificate.derBytes, as: "good.der")
        let gibberish = try folder.write("nothing of the kind", as: "gibberish")
        let missing = try pinproxy("pins", "from", "\(folder.path)/none", good)
        #expect(missing.exitCode == 66)
        #expect(missing.output.hasPrefix("\(server.pin)"))
        let bad = try pinproxy("pins", "from", gibberish, good)
        #expect(bad.exitCode == 1)
        #expect(bad.output.hasPrefix("\(server.pin)"))
        #expect(bad.errors.contains("gibberish\": neither PEM nor DER"))
    }

    // MARK: pins show

    private struct Shown {
        let finished: Programs.Finished
        let origin: ScriptedOrigin
        let server: TestServer
        let anchors: String
    }

    /// `pins show` of an origin for `localhost`, with the root as the only anchor unless `trusted` is false.
    private func show(_ options: [String] = [], folder: TemporaryFolder, trusted: Bool = true) throws -> Shown {
        let pki = try TestPKI()
        let server = try pki.server("localhost")
        let anchors = try folder.write((trusted ? pki : try TestPKI("other")).root.certificate.pem, as: "anchors.pem")
        let origin = try ScriptedOrigin(server) { connection in connection.readToEnd() }
        let finished = try pinproxy(
            ["pins", "show", "localhost:\(origin.port)", "--anchors", anchors] + options
        )
        return Shown(finished: finished, origin: origin, server: server, anchors: anchors)
    }

    @Test("pins show prints the validated chain's pins, and sends no request")
    func validChain() throws {
        let folder = try TemporaryFolder()
        let shown = try show(folder: folder)
        #expect(shown.finished.exitCode == 0, "\(shown.finished.errors)")
        let output = shown.finished.output
        #expect(output.contains("The chain is VALID"))
        // The root was not sent; the chain is the validated one.
        #expect(output.contains("\n0   CN = localhost\n"))
        #expect(output.contains("\n1   CN = pinproxy test intermediate\n"))
        #expect(output.contains("\n2   CN = pinproxy test root\n"))
        #expect(output.contains("pin     \(shown.server.pin)\n"))
        #expect(output.contains("names   DNS:localhost\n"))
        #expect(output.contains("dates   2020-01-01 to 2099-01-01"))
        #expect(!output.contains("\u{1b}"))
        let records = try shown.origin.waitForClosed()
        #expect(records.map(\.applicationBytes) == [0])
    }

    @Test("an invalid chain is shown as such, and ends with 77")
    func invalidChain() throws {
        let folder = try TemporaryFolder()
        let shown = try show(folder: folder, trusted: false)
        #expect(shown.finished.exitCode == 77)
        #expect(shown.finished.output.contains("The chain is NOT VALID: certificate_untrusted"))
        #expect(shown.finished.output.contains("pin     \(shown.server.pin)\n"))
        #expect(try shown.origin.waitForClosed().map(\.applicationBytes) == [0])
    }

    @Test("--pin-file prints a pin file that loads and that the server passes")
    func pinFile() throws {
        let folder = try TemporaryFolder()
        let shown = try show(["--pin-file"], folder: folder)
        #expect(shown.finished.exitCode == 0, "\(shown.finished.errors)")
        #expect(shown.finished.errors.contains("confirm them before you rely on them"))
        #expect(shown.finished.output.hasPrefix("{\n  \(FileSchema.pinFile.member),\n"))
        let loaded = try PinFile.load(text: shown.finished.output, file: "\(folder.path)/pin.json", at: 1_800_000_000)
        let domain = try #require(loaded.domains.domains.first)
        #expect(domain.ports == [shown.origin.port])
        let policy = try #require(domain.policy)
        let said = shown.finished.errors.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(said.contains("Of a private CA that is the right one"), "\(said)")
        let root = try Certificate.certificates(file: shown.anchors)[0]
        #expect(policy.configuration.pins.map(\.key) == [shown.server.pin, root.publicKeyPin])
        #expect(policy.configuration.pins.map(\.isBackup) == [false, true])
        let evaluation = policy.evaluate(
            chain: shown.server.chain,
            host: domain.host,
            anchors: TrustAnchors(certificates: [])
        )
        #expect(evaluation.verdict == .pass)
    }

    @Test("an invalid chain gives no pin file")
    func noPinFile() throws {
        let folder = try TemporaryFolder()
        let shown = try show(["--pin-file"], folder: folder, trusted: false)
        #expect(shown.finished.exitCode == 77)
        #expect(shown.finished.output.isEmpty)
    }

    @Test("an unreachable server ends with 1, a missing anchor file with 66")
    func unreachable() throws {
        let (descriptor, port) = try TestSocket.reserveRefusingPort()
        defer { close(descriptor) }
        let folder = try TemporaryFolder()
        let anchors = try folder.write(try TestPKI().root.certificate.pem, as: "anchors.pem")
        let refused = try pinproxy("pins", "show", "127.0.0.1:\(port)", "--anchors", anchors)
        #expect(refused.exitCode == 1)
        #expect(refused.errors.contains("127.0.0.1:\(port) could not be reached"))
        let missing = try pinproxy("pins", "show", "127.0.0.1:\(port)", "--anchors", "\(folder.path)/none")
        #expect(missing.exitCode == 66)
    }
}
