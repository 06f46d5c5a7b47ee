// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Charsets and media types")
struct TextEncodingTests {
    @Test("every charset reads back what it writes, and is found by its name", arguments: TextEncoding.allCases)
    func roundTrip(encoding: TextEncoding) throws {
        let text = encoding == .ascii ? "plain ~" : encoding == .isoLatin1 ? "na\u{EF}ve" : "na\u{EF}ve €"
        let bytes = try #require(encoding.encode(text))
        #expect(encoding.decode(bytes) == text)
        #expect(TextEncoding(charset: encoding.charset.uppercased()) == encoding)
    }

    @Test("text outside a charset is not written, and invalid text is not read")
    func strictness() {
        #expect(TextEncoding.ascii.encode("é") == nil)
        #expect(TextEncoding.isoLatin1.encode("€") == nil)
        #expect(TextEncoding.windows1252.encode("\u{81}") == nil)
        #expect(TextEncoding.windows1252.encode("中") == nil)
        #expect(TextEncoding.ascii.decode([0x80]) == nil)
        #expect(TextEncoding.utf8.decode([0xC0, 0x80]) == nil)
        #expect(TextEncoding.windows1252.decode([0x81]) == nil)
        #expect(TextEncoding.utf16BigEndian.decode([0xD8, 0x00]) == nil)
        #expect(TextEncoding.utf16.decode([0]) == nil)
        #expect(TextEncoding(charset: "klingon") == nil)
    }

    @Test("a byte order mark tells the order, and is no part of the text")
    func byteOrderMarks() {
        #expect(TextEncoding.utf8.decode([0xEF, 0xBB, 0xBF, 0x61]) == "a")
        #expect(TextEncoding.utf16.decode([0xFF, 0xFE, 0x61, 0]) == "a")
        #expect(TextEncoding.utf16.decode([0xFE, 0xFF, 0, 0x61]) == "a")
        #expect(TextEncoding.utf16.decode([0, 0x61]) == "a")
        #expect(TextEncoding.utf16LittleEndian.encode("€") == [0xAC, 0x20])
    }

    @Test(
        "media types are read with their charset",
        arguments: [
            ("text/html", "text/html", nil), ("Text/HTML; Charset=UTF-8", "text/html", "utf-8"),
            ("text/plain;q=\"a;charset=x\" ; charset=\"ISO-8859-1\"", "text/plain", "iso-8859-1"),
            ("application/vnd.api+json", "application/vnd.api+json", nil),
        ] as [(String, String, String?)]
    )
    func mediaTypes(text: String, essence: String, charset: String?) throws {
        let type = try #require(MediaType(text))
        #expect(type.essence == essence)
        #expect(type.charset == charset)
    }

    @Test("an invalid media type is none", arguments: ["", "text", "text/", "/html", "a/b/c", "te xt/html", ";"])
    func noMediaTypes(text: String) {
        #expect(MediaType(text) == nil)
    }
}
