// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
import HTTPSessionCodable
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("JSON, read and written")
struct JSONTests {
    private func parse(
        _ text: String,
        _ options: JSONReadingOptions = JSONReadingOptions()
    ) throws(JSONFault) -> JSONValue {
        try JSONValue(parsing: Array(text.utf8), options: options)
    }

    private func written(_ value: JSONValue, _ options: JSONWritingOptions = []) -> String {
        String(decoding: value.serialized(options), as: UTF8.self)
    }

    @Test("every kind of value is read")
    func kinds() throws {
        let value = try parse(" {\"a\" : [ null , true,false, -0.5e+3 ,\"x\" ], \"b\":{ }, \"c\" : [ ]}\r\n\t")
        #expect(value["a"]?.array?.count == 5)
        #expect(value["a"]?[3]?.double == -500)
        #expect(value["b"] == [:])
        #expect(value["c"] == [])
        #expect(value["d"] == nil)
        #expect(value["a"]?[9] == nil)
    }

    @Test(
        "escapes are read",
        arguments: [
            (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"), (#""\u00e4\u4E2D""#, "ä中"), (#""\ud83d\ude00!""#, "😀!"),
            (#""a\u0000b""#, "a\0b"), (#""plain é""#, "plain é"),
        ]
    )
    func escapes(text: String, expected: String) throws {
        #expect(try parse(text) == .string(expected))
    }

    @Test(
        "text that RFC 8259 does not allow is refused",
        arguments: [
            "", " ", "{", "[1,]", "[1 2]", "{\"a\":1,}", "{\"a\" 1}", "{a:1}", "{1:1}", "'a'", "01", "1.", ".5", "+1",
            "-",
            "1e", "1e+", "0x1", "NaN", "Infinity", "nul", "True", "tru", "\"a", "\"\\x\"", "\"\\u12g4\"", "\"\\ud800\"",
            "\"\\udc00\"", "\"\\ud800\\u0041\"", "\"\n\"", "\"\\", "1 2", "[] //", "/**/1", "[1]]", "\u{FEFF}\u{FEFF}1",
            "}",
            "\"\\u１２３４\"",
        ]
    )
    func refused(text: String) {
        #expect(throws: JSONFault.self) { try parse(text) }
    }

    @Test(
        "the fault of an escape or a number has a place",
        arguments: [
            (#""\q""#, "an unknown escape", 2), (#""\u12G4""#, "no hexadecimal digit", 5),
            (#""\ud83d\u1G""#, "no hexadecimal digit", 10), (#""\ud83dx""#, "half of a surrogate pair", 3),
            (#""\"#, "the text ends too early", 2), ("[1.]", "no digit in a number", 3),
            ("-", "the text ends too early", 1), ("[01]", "no comma between elements", 2),
        ]
    )
    func faults(text: String, message: String, offset: Int) {
        let fault = #expect(throws: JSONFault.self) { try parse(text) }
        #expect(fault?.message == message)
        #expect(fault?.offset == offset)
    }

    @Test("a repeated name is refused in any spelling, with its place")
    func duplicates() {
        let fault = #expect(throws: JSONFault.self) { try parse(#"{"a":{"b":1,"\u0062":2}}"#) }
        #expect(fault?.offset == 12)
        #expect(fault?.message == "a name for the second time")
    }

    @Test("nesting has a bound, which can be chosen, and never costs the stack")
    func depth() throws {
        let options = JSONReadingOptions(maximumDepth: 3)
        #expect(try parse("[[[1]],[[2]]]", options) == [[[1]], [[2]]])
        #expect(throws: JSONFault.self) { try parse("[[[[]]]]", options) }
        let bomb = String(repeating: "[", count: 100_000)
        let fault = #expect(throws: JSONFault.self) { try parse(bomb, JSONReadingOptions(maximumDepth: .max)) }
        #expect(fault?.message == "nested too deeply")
        let deep = String(repeating: "[", count: 1024) + String(repeating: "]", count: 1024)
        _ = try parse(deep, JSONReadingOptions(maximumDepth: 1024))
    }

    @Test("bytes that are not UTF-8 are refused; a byte order mark is skipped")
    func encoding() throws {
        #expect(throws: JSONFault.self) { try JSONValue(parsing: [0x22, 0xC3, 0x28, 0x22]) }
        #expect(throws: JSONFault.self) { try JSONValue(parsing: [0x22, 0xED, 0xA0, 0x80, 0x22]) }
        #expect(try JSONValue(parsing: [0xEF, 0xBB, 0xBF, 0x31]) == 1)
    }

    @Test("fragments are read unless they are not wanted", arguments: ["1", "\"a\"", "null", "true"])
    func fragments(text: String) throws {
        _ = try parse(text)
        #expect(throws: JSONFault.self) { try parse(text, JSONReadingOptions(allowsFragments: false)) }
        _ = try parse("[\(text)]", JSONReadingOptions(allowsFragments: false))
    }

    @Test("nulls are removed at any depth, and nothing else is")
    func removingNulls() throws {
        let text = #"{"a":null,"b":{"c":null,"d":[null,{"e":null,"f":0},false,""]},"g":[null]}"#
        let value = try parse(text, JSONReadingOptions(removesNulls: true))
        #expect(written(value) == #"{"b":{"d":[{"f":0},false,""]},"g":[]}"#)
        #expect(try parse("null", JSONReadingOptions(removesNulls: true)) == .null)
    }

    @Test(
        "numbers keep their spelling, and are given out exactly or not at all",
        arguments: [
            ("9223372036854775807", Int.max, 9.223372036854775807e18),
            ("9223372036854775808", nil, 9.223372036854775808e18),
            ("-9223372036854775808", Int.min, -9.223372036854775808e18), ("1.5", nil, 1.5), ("1e400", nil, nil),
            ("0.1", nil, 0.1), ("-0", 0, -0.0), ("1E2", nil, 100),
        ] as [(String, Int?, Double?)]
    )
    func numbers(text: String, int: Int?, double: Double?) throws {
        let value = try parse(text)
        #expect(value.int == int)
        #expect(value.double == double)
        #expect(written(value) == text)
    }

    @Test(
        "doubles are written so that they read back as the same",
        arguments: [0.1, 1.0 / 3, .leastNonzeroMagnitude, 1.7976931348623157e308]
    )
    func doubles(number: Double) throws {
        let text = written(try JSONValue(.double(number)))
        #expect(try parse(text).double == number)
    }

    @Test("written text is compact, pretty, sorted and with bare slashes as chosen")
    func writing() {
        let value: JSONValue = ["b/c": ["x", []], "a": [:], "B": "\u{1}\u{1F}\"\\\n\u{7F}é/"]
        #expect(written(value) == #"{"b\/c":["x",[]],"a":{},"B":"\u0001\u001f\"\\\n"# + "\u{7F}é" + #"\/"}"#)
        #expect(written(value, [.sortedKeys, .withoutEscapingSlashes]).hasPrefix(#"{"B":""#))
        let pretty = """
            {
              "a": {},
              "b/c": [
                "x",
                []
              ]
            }
            """
        #expect(
            written(["b/c": ["x", []], "a": [:]], [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]) == pretty
        )
    }

    // MARK: Decodable

    private struct Item: Decodable {
        var someRaw: JSONValue
    }

    @Test("JSON of any form may be a member, with its names and digits")
    func decoding() throws {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        func raw(_ text: String) throws -> JSONValue {
            try decoder.decode(Item.self, from: Array("{\"some_raw\":\(text)}".utf8)).someRaw
        }
        for text in [
            "null", "true", "\"x\"", "-7", "18446744073709551615", "1234567890123456789.0123456789", "0.1",
            "[1,[],{\"a_b\":null}]", "{\"snake_case\":{\"x_y\":[false]}}",
        ] {
            #expect(try raw(text) == parse(text))
        }
        #expect(try raw("1.50").double == 1.5)
        #expect(try raw("6.02e300").double == 6.02e300)
        #expect(throws: DecodingError.self) { try raw("1e400") }
    }
}
