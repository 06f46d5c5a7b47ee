// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// All that h2spec's public list holds, 146 cases and the strict one, from clients to a forward listener.
@Suite("Conformance of HTTP/2 from clients", .onOwnThreads)
struct HTTP2ConformanceTests {
    private static let all = [
        GenericCases.streams, GenericCases.frames, GenericCases.messages, GenericCases.fieldCompression,
        FrameCases.format, FrameCases.states, DefinitionCases.bodiesAndHeads, DefinitionCases.settings,
        DefinitionCases.connection, DefinitionCases.continuations, MessageCases.fields, MessageCases.compression,
    ]

    private func stage() throws -> Stage {
        try Stage(HTTP2ClientTests.takeHTTP2) { OriginResponse.text($0.target + String(repeating: ".", count: 100)) }
    }

    @Test("every case of the list behaves as the standards say", arguments: all.indices)
    func list(_ group: Int) throws {
        let stage = try stage()
        for conformanceCase in Self.all[group] {
            let client = ConformanceClient(try stage.proxy.connect())
            try client.shakeHands()
            if let fault = client.run(conformanceCase.steps) {
                Issue.record("\(conformanceCase.name): \(fault)")
            }
        }
        // Budgets belong to a connection: a new one starts with a full one.
        let peer = try HTTP2Peer(stage.proxy.connect())
        #expect(try peer.finish(peer.request(authority: Stage.host)).status == 200)
    }

    @Test("the list is complete: 144 cases here, and the two of section 3.5")
    func count() {
        let names = Self.all.flatMap { $0.map(\.name) }
        #expect(names.count == 145 && Set(names).count == 145)
    }

    @Test("3.5 the server's preface is SETTINGS")
    func preface() throws {
        let stage = try stage()
        let client = ConformanceClient(try stage.proxy.connect())
        try client.shakeHands()
        #expect(client.log.first?.hasPrefix("4/0@0") == true)
    }

    @Test("3.5 an invalid preface ends the connection")
    func invalidPreface() throws {
        let stage = try stage()
        let client = try stage.proxy.connect()
        try client.send("INVALID CONNECTION PREFACE\r\n\r\n")
        // A client of HTTP/1.1 could have sent that: it is told so before the end.
        #expect(try client.readResponse().status == 400)
        #expect(try client.isAtEnd())
    }
}
