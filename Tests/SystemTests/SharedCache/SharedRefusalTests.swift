// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("The shared cache: what is never shared", .onOwnThreads, .enabled(if: RedisProcess.isThere))
struct SharedRefusalTests {
    private let redis: RedisProcess

    init() throws { redis = try RedisProcess() }

    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        /// Of the requests of the first and the second machine.
        var fields: [[String]] = [[], []]
        let response: [String]
        var testDescription: String { name }
    }

    private static let fresh = "Cache-Control: max-age=600"
    private static let cases = [
        Case(
            name: "Authorization",
            fields: [["Authorization: Basic YTpi"], ["Authorization: Basic YTpi"]],
            response: [fresh]
        ),
        Case(name: "private", response: ["Cache-Control: private, max-age=600"]),
        Case(name: "private with a cookie", response: ["Cache-Control: private, max-age=600", "Set-Cookie: a=1"]),
        Case(name: "no-store", response: ["Cache-Control: no-store, max-age=600"]),
        Case(
            name: "varying by cookie",
            fields: [["Cookie: a=1"], ["Cookie: a=2"]],
            response: [fresh, "Vary: Cookie"]
        ),
        Case(name: "varying by everything", response: [fresh, "Vary: *"]),
        Case(name: "a request that forbids it", fields: [["Cache-Control: no-store"], []], response: [fresh]),
    ]

    @Test("a response that is not for others is not in Redis", arguments: cases)
    func notForOthers(refused: Case) throws {
        let origin = try VersionedOrigin(fields: { request, _ in
            request.target == "/control" ? [Self.fresh] : refused.response
        })
        let stage = try SharedStage(SharedStage.redis([redis]), origin: origin)
        try stage[0].get("/x", fields: refused.fields[0])
        // Stored later by the same machine: whatever it had stored before is there, too.
        try stage.store(["/control"])
        let second = try stage[1].get("/x", fields: refused.fields[1])
        #expect(!second.isShared && origin.count("/x") == 2, "\(second.response.fields)")
        #expect(try stage[1].get("/control").isShared)
    }

    @Test("a part of a response is not in Redis")
    func part() throws {
        let server = try Stage.pki.server(Stage.host)
        let asked = Monitor(0)
        let partial = try ScriptedOrigin(server) { connection in
            while let request = try connection.readRequest() {
                asked.with { $0 += 1 }
                if request["Range"] != nil {
                    let fields = ["Content-Range: bytes 0-3/10", "Cache-Control: max-age=600", "ETag: \"v\""]
                    try connection.write(OriginResponse.text("0123", status: "206 Partial Content", fields: fields))
                } else {
                    try connection.write(
                        OriginResponse.text("0123456789", fields: ["Cache-Control: max-age=600", "ETag: \"v\""])
                    )
                }
            }
        }
        let stage = try SharedStage(SharedStage.redis([redis])) { _, settings in
            settings.serve(Stage.host, server, at: partial.port)
        }
        let range = ["Range: bytes=0-3"]
        #expect(try stage[0].ask("GET", "/x", fields: range).text == "0123")
        let second = try stage[1].ask("GET", "/x")
        #expect(second.status == 200 && second.text == "0123456789")
        #expect(asked.read { $0 } == 2)
    }

    enum Difference: CaseIterable {
        case pins, key, prefix
    }

    @Test("machines with other pins, key or prefix share nothing", arguments: Difference.allCases)
    func otherMachines(difference: Difference) throws {
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 3) { machine, settings in
            guard machine == 1 else { return }
            switch difference {
            case .pins:
                let pins = settings.pinnedDomains[Stage.host]?["pins"] as? [String] ?? []
                settings.pinnedDomains[Stage.host]?["pins"] = Array(pins.prefix(1)) + [PublicKeyPinText.another]
            case .key: settings.files["shared.key"] = Data(patternBytes(32, seed: 1)).base64EncodedString() + "\n"
            case .prefix: SharedStage.setRedis(["prefix": "other:"], in: &settings)
            }
        }
        for path in ["/a", "/70000/b"] {
            try stage.store([path])
            stage.origin.change(path)
            let other = try stage[1].get(path)
            #expect(other.version == 2 && !other.isShared, "\(other.response.fields)")
            #expect(try stage[2].get(path).version == 1)
            #expect(stage.origin.count(path) == 2)
        }
        // The reverse: what the other has stored is not for the first.
        try stage.store(["/c"], by: 1)
        stage.origin.change("/c")
        #expect(try stage[0].get("/c").version == 2)
    }
}

enum PublicKeyPinText {
    /// A pin of no key.
    static let another = "sha256/" + Data(patternBytes(32, seed: 7)).base64EncodedString()
}
