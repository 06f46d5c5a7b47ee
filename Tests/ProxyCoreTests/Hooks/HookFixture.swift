// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import SessionCore
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

/// A router over files as a person writes them, for hooks that judge without a socket.
struct HookFixture {
    static let asked = "api.example.com"
    let router: Router

    /// - Parameters:
    ///   - hosts: entries of `hosts`, as JSON members.
    ///   - pinned: hosts that are pinned, with further members of their entries.
    init(hosts: String, members: String = "", pinned: [String: String] = [:]) throws {
        let folder = try ConfigurationFolder([
            "config.json": """
            { "version": 1, "pins": "pins", "trustAnchors": { "system": false }, \(members)
              "hosts": { \(hosts) } }
            """
        ])
        try folder.makeFolder("pins")
        try folder.makeFolder("downloads")
        for (host, members) in pinned { try folder.write("pins/\(host).json", pinFile(host, members: members)) }
        if pinned.isEmpty { try folder.write("pins/none.json", pinFile("none.example")) }
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        try #require(outcome.issues.isEmpty, "\(outcome.issues)")
        router = Router(snapshot: try #require(outcome.makeSnapshot()))
    }

    func hooks(_ host: String = Self.asked) throws -> HostHooks {
        try #require(router.snapshot.policy(for: try Host(host)).hooks)
    }

    /// A head as an origin sends it.
    static func head(_ status: Int, _ fields: [String], to method: HTTPMethod = .get) throws -> ResponseHead {
        var head = ResponseHead()
        var parser = ResponseHeadParser()
        for line in ["HTTP/1.1 \(status) X"] + fields + [""] {
            if case .failed(let fault) = parser.consume(
                line: Array("\(line)\r\n".utf8).span,
                answering: method,
                into: &head
            ) {
                throw Refused(fault: "\(fault.message)")
            }
        }
        return head
    }

    private struct Refused: Error { let fault: String }
}
