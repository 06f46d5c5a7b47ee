import Foundation
import ServerTrust
import TestSupport
import Testing

/// Real clients through the proxy to a pinned origin. `PINPROXY_REQUIRE_CLIENTS=1` makes one that is not installed a
/// failure; otherwise those that are there are run.
@Suite("The matrix of real clients")
struct ClientMatrixTests {
    private static let wrongHost = "wrong.example.com"
    private static let innerHost = "inner.example.com"
    private static let isComplete = ProcessInfo.processInfo.environment["PINPROXY_REQUIRE_CLIENTS"] == "1"
    private static let absent = MatrixClient.all.compactMap { client in client.absence.map { (client, $0) } }
    private static let present = MatrixClient.all.filter { client in !absent.contains { $0.0.name == client.name } }

    @Test("every client of the matrix is there", .enabled(if: isComplete))
    func complete() {
        for (client, why) in Self.absent where client.isInstallable { Issue.record("\(client.name): \(why)") }
    }

    @Test("a real client gets, posts, downloads, uploads, follows, and is told of a wrong pin", arguments: present)
    func client(client: MatrixClient) throws {
        let work = try TemporaryFolder()
        let pinproxy = try Programs.built("pinproxy")
        let made = try Programs.run(pinproxy, ["ca", "init", "--dir", work.path, Self.innerHost])
        try #require(made.exitCode == 0, "\(made.errors)")
        let authority = "\(work.path)/pinproxy-ca.pem"
        let server = try Stage.pki.server(Stage.host, Self.wrongHost, Self.innerHost)
        let origin = try MatrixOrigin(server)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.resolve(Self.wrongHost, to: origin.port)
        settings.pin(Self.wrongHost, to: .unrelated(2))
        settings.serve(Self.innerHost, server, at: origin.port)
        settings.hosts[Self.innerHost, default: [:]]["connect"] = "intercept"
        settings.members["interception"] = ["certificate": authority, "key": "\(work.path)/pinproxy-ca.key"]
        let proxy = try ProxyUnderTest(settings)
        let upload = try work.write(bytes: origin.large, as: "upload")
        let address = "http://127.0.0.1:\(proxy.port)"
        let name = client.name.replacing(" ", with: "-")
        let finished = try client.run([
            "PROXY": address, "BASE": "http://\(Stage.host)", "SECURE": "https://\(Stage.host)",
            "WRONG": "http://\(Self.wrongHost)", "INNER": "https://\(Self.innerHost)", "CA": authority,
            "NODE_EXTRA_CA_CERTS": authority, "UPLOAD": upload, "WORK": work.path, "NAME": name,
            "http_proxy": address, "https_proxy": address,
        ])
        var said: [String: String] = [:]
        for line in finished.output.split(separator: "\n") {
            let words = line.split(separator: " ", maxSplits: 1).map(String.init)
            if words.count == 2 { said[words[0]] = words[1] }
        }
        let digest = try Programs.run("sha256sum", [upload]).output.prefix(64)
        for action in MatrixClient.Action.allCases where !client.lacks.contains(action) {
            let expected: String
            switch action {
            case .get, .redirect, .intercept: expected = Self.text(action, for: client)
            case .post: expected = "POST:some fields 200"
            case .download: expected = String(digest)
            case .upload: expected = "\(origin.large.count) intact"
            case .error: expected = ["git", "pip", "apt"].contains(client.name) ? "502" : "502 pin_mismatch"
            case .keep: expected = "done"
            case .connect: expected = "403"
            }
            #expect(said[action.rawValue] == expected, "\(action): \(finished.output)\n\(finished.errors)")
        }
        if !client.lacks.contains(.keep) {
            let kept = try Patience.poll(for: "both requests in the log") { () -> [LogLine]? in
                let lines = proxy.taskLines.filter { $0.string("url")?.contains("/keep/") == true }
                return lines.count >= 2 ? lines : nil
            }
            #expect(Set(kept.map { $0.string("client") }).count == 1, "the connection was not kept")
        }
        #expect(try proxy.terminate().exitCode == 0)
    }

    private static func text(_ action: MatrixClient.Action, for client: MatrixClient) -> String {
        switch client.name {
        case "git": "from the repository"
        case "apt": "pinned-package"
        case "pip": "pinned_package-1.0-py3-none-any.whl"
        default: action != .redirect ? "hello 200" : "hello 200 http://\(Stage.host)/hello"
        }
    }
}
