// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("Apache behind a pin", .onOwnThreads, .enabled(if: ApacheServer.isInstalled || RealPeers.areRequired))
struct ApacheTests {
    @Test("files, WebDAV's methods, echoed bodies and redirects work", arguments: ["1.1", "2"])
    func serves(version: String) throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try ApacheServer(server, http2: version == "2", files: ["one.txt": Array("one".utf8)])
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = version
        let proxy = try ProxyUnderTest(settings)
        func ask(_ method: String, _ path: String, fields: [String] = [], body: String? = nil) throws -> HTTPMessage {
            let request = ProxyUnderTest.request(method, "http://\(Stage.host)\(path)", fields: fields, body: body)
            return try proxy.exchange(request, method: method)
        }
        #expect(try ask("GET", "/files/one.txt").text == "one", "\(origin.errors)")
        #expect(try ask("PUT", "/files/two.txt", body: "two").status == 201, "\(origin.errors)")
        #expect(origin.file("two.txt") == Array("two".utf8))
        #expect(try ask("MKCOL", "/files/folder").status == 201)
        #expect(try ask("PROPFIND", "/files/", fields: ["Depth: 1"]).status == 207)
        #expect(try ask("DELETE", "/files/one.txt").status == 204)
        #expect(origin.file("one.txt") == nil)
        // Over HTTP/2 Apache's mod_reflector gives nothing back.
        if version == "1.1" { #expect(try ask("POST", "/echo", body: "some words").text == "some words") }
        #expect(try ask("GET", "/redirect")["Location"] == "http://\(Stage.host)/plain")
        #expect(origin.requests.contains("MKCOL /files/folder 201"))
    }
}
