// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionStubs
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("URLs that are not percent-encoded")
struct URLEscapingTests {
    /// Every printable ASCII character, and some beyond.
    private static let pieces =
        (0x20..<0x7F).map { String(UnicodeScalar(UInt8($0))) } + [
            "é", "日本", "😀", "e\u{301}", "a b", "x%", "%zz", "%4", "%",
        ]

    @Test("unescaped URLs become what Foundation's URL makes of them")
    func asFoundation() throws {
        for piece in Self.pieces where piece != "\\" {
            for place in [
                "https://h.example/\(piece)/x", "https://h.example/?q=\(piece)", "https://h.example/#\(piece)",
            ] {
                #expect(URLEscaping.escape(place) == URL(string: place)?.absoluteString)
            }
        }
    }

    @Test("escapes, control characters, backslashes and the authority stay as they are")
    func kept() {
        for text in [
            "https://h.example/%41%c3%A9?%20#%7f", "a\\b", "a\nb", "https://[::1]:8080/x", "//[::1]/x", "//é.example",
            "", "#",
            "mailto:a", "a:b",
        ] {
            #expect(URLEscaping.escape(text) == text)
        }
        #expect(URLEscaping.escape("/%20 é?%41[0]") == "/%20%20%C3%A9?%41%5B0%5D")
        #expect(URLEscaping.escape("https://é[.example/é[") == "https://é[.example/%C3%A9%5B")
    }

    @Test("unescaped URLs go on the wire encoded, from every entrance")
    func wire() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "/a b/é", response: .json(["a": 1]))
        _ = try await stage.manager.get("a b/é")
        _ = try await stage.manager.get("https://api.example.com/a b/é?q={|}")
        _ = try await stage.manager.data(for: "https://api.example.com/a%20b/é")
        var request = HTTPSessionRequest(url: StubStage.base)
        request.url += "/a b/é"
        _ = try await stage.manager.data(for: request)
        _ = try await stage.manager.session.dataTask(with: request).value()
        let path = "https://api.example.com/a%20b/%C3%A9"
        #expect(stage.origin.requests.map(\.url) == [path, path + "?q=%7B%7C%7D", path, path, path])
        await #expect(throws: RequestFailure.self) { try await stage.manager.get("a\r\nb") }
        await stage.end()
    }
}
