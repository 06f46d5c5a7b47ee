// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("Command line: warnings about other hosts", .onOwnThreads)
struct CommandLineScopeTests {
    private let folder: TemporaryFolder
    private let origin: ScriptedOrigin
    private let config: String

    /// A configuration that warns of the served host, of another one, and of a file that looks like a pin file.
    init() throws {
        folder = try TemporaryFolder()
        let server = try Stage.pki.server(Stage.host)
        origin = try ScriptedOrigin(server) { _ in OriginResponse.text("fine") }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.resolve(Stage.host, to: origin.port)
        settings.pin(Stage.host, to: server.pin, with: ["enforcePinning": false])
        settings.pin("other.test", to: .unrelated(3), with: ["enforcePinning": false])
        settings.hosts["given.test"] = ["headers": ["request": ["set": ["Authorization": "Bearer a-secret-value"]]]]
        settings.files["pins/api.json.bak"] = "{}"
        config = try settings.write(to: folder)
    }

    private func expect(_ finished: Programs.Finished, own: Bool, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(finished.exitCode == 0, "\(finished.errors)", sourceLocation: sourceLocation)
        let errors = finished.errors
        #expect(
            !errors.contains("other.test") && !errors.contains("given.test"),
            "\(errors)",
            sourceLocation: sourceLocation
        )
        #expect(
            errors.contains("pins of \(Stage.host) are only reported") == own,
            "\(errors)",
            sourceLocation: sourceLocation
        )
        #expect(errors.contains("api.json.bak"), "\(errors)", sourceLocation: sourceLocation)
    }

    @Test("fetch and pins verify HOST warn of their own host, and not of others")
    func ownHost() throws {
        expect(try pinproxy("fetch", "--config", config, "https://\(Stage.host)/"), own: true)
        let verified = try pinproxy("pins", "verify", "--config", config, Stage.host)
        #expect(
            !verified.errors.contains("other.test") && verified.errors.contains("only reported"),
            "\(verified.errors)"
        )
        #expect(try pinproxy("check", config).errors.contains("pins of other.test are only reported"))
    }

    @Test("exec and pins learn warn of no single host")
    func noHost() throws {
        expect(try pinproxy("exec", "--config", config, "--", "true"), own: false)
        let learned = try pinproxy("pins", "learn", "--config", config, "/dev/null")
        #expect(
            !learned.errors.contains("only reported") && learned.errors.contains("api.json.bak"),
            "\(learned.errors)"
        )
    }
}
