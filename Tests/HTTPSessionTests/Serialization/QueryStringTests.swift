// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Query strings")
struct QueryStringTests {
    private func text(
        _ parameters: ParameterValue,
        encoding: TextEncoding = .utf8,
        _ change: (inout QueryString) -> Void = { _ in }
    ) throws -> String {
        guard case .dictionary(let members) = parameters else { return "no dictionary" }
        var query = QueryString()
        change(&query)
        return try query.text(of: members, encoding: encoding)
    }

    @Test("no parameters are an empty text")
    func empty() throws {
        #expect(try text([:]) == "")
    }

    @Test("names are sorted by UTF-16 code units, whatever the order given")
    func order() throws {
        #expect(try text(["b": 1, "a": 2, "B": 3, "10": 4, "9": 5, "ä": 6]) == "10=4&9=5&B=3&a=2&b=1&%C3%A4=6")
        #expect(try text(["\u{FF5E}": 1, "😀": 2]) == "%F0%9F%98%80=2&%EF%BD%9E=1")
    }

    @Test("nested dictionaries put their names into brackets, sorted at each level")
    func nestedDictionaries() throws {
        let parameters: ParameterValue = ["user": ["name": ["last": "L", "first": "F"], "id": 1], "a": 0]
        #expect(try text(parameters) == "a=0&user%5Bid%5D=1&user%5Bname%5D%5Bfirst%5D=F&user%5Bname%5D%5Blast%5D=L")
    }

    @Test("arrays keep their order, and their elements are named with empty brackets")
    func arrays() throws {
        #expect(try text(["a": [3, 1, 2]]) == "a%5B%5D=3&a%5B%5D=1&a%5B%5D=2")
        #expect(try text(["a": [["b": 1], [2]]]) == "a%5B%5D%5Bb%5D=1&a%5B%5D%5B%5D=2")
        #expect(try text(["a": []]) == "")
    }

    @Test("sets are sorted by their text and named without brackets")
    func sets() throws {
        #expect(try text(["s": .set([10, 9, "b", true])]) == "s=1&s=10&s=9&s=b")
        #expect(try text(["k": ["s": .set(["z", "a"])]]) == "k%5Bs%5D=a&k%5Bs%5D=z")
        #expect(try text(["s": .set([["b"], ["a"]])]) == "s%5B%5D=a&s%5B%5D=b")
    }

    @Test("null is the name alone")
    func nulls() throws {
        #expect(try text(["a": nil, "b": ["c": nil], "d": [nil]]) == "a&b%5Bc%5D&d%5B%5D")
    }

    @Test("booleans are 1 and 0, and numbers have no superfluous fraction")
    func numbers() throws {
        #expect(try text(["t": true, "f": false]) == "f=0&t=1")
        #expect(
            try text(["a": 1.0, "b": -0.5, "c": 3.14, "d": .int(.min), "e": .unsigned(.max), "f": 1e21])
                == "a=1&b=-0.5&c=3.14&d=-9223372036854775808&e=18446744073709551615&f=1e%2B21"
        )
    }

    @Test("general and sub-delimiters are escaped but for the slash and the question mark")
    func delimiters() throws {
        let delimiters = ":#[]@!$&'()*+,;="
        let escaped = "%3A%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D"
        #expect(PercentEscaping.escape(delimiters) == escaped)
        #expect(PercentEscaping.escape("/?") == "/?")
        #expect(try text(.dictionary([delimiters: .string(delimiters)])) == "\(escaped)=\(escaped)")
        #expect(try text(["url": "https://a.example/b?c=d&e"]) == "url=https%3A//a.example/b?c%3Dd%26e")
    }

    @Test("letters, digits and the four marks stay; every other ASCII character is escaped")
    func unreserved() {
        let kept = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/?"
        for code in UInt8(0)..<0x80 {
            let character = String(Unicode.Scalar(code))
            let digits = String(code, radix: 16, uppercase: true)
            let escaped = kept.contains(character) ? character : "%" + (code < 16 ? "0" : "") + digits
            #expect(PercentEscaping.escape(character) == escaped)
        }
    }

    @Test("a percent sign is escaped, so that escaped-looking text arrives unchanged")
    func percentSign() {
        #expect(PercentEscaping.escape("100% %20") == "100%25%20%2520")
    }

    @Test(
        "text beyond ASCII is escaped byte by byte in UTF-8",
        arguments: [
            ("français", "fran%C3%A7ais"), ("日本語", "%E6%97%A5%E6%9C%AC%E8%AA%9E"),
            ("العربية", "%D8%A7%D9%84%D8%B9%D8%B1%D8%A8%D9%8A%D8%A9"), ("😃", "%F0%9F%98%83"),
        ]
    )
    func beyondASCII(text: String, escaped: String) {
        #expect(PercentEscaping.escape(text) == escaped)
    }

    @Test("long texts of composed characters come out whole, wherever a batch could end")
    func longTexts() throws {
        let family = "👨‍👩‍👧‍👦"
        let flag = "🇩🇪"
        for offset in 0..<60 {
            let long = String(repeating: "x", count: offset) + String(repeating: family + flag + "e\u{301}", count: 40)
            let escaped = try #require(PercentEscaping.escape(long))
            let isWhole = try unescaped(escaped) == Array(long.utf8)
            #expect(isWhole, "behind \(offset) characters")
        }
    }

    private func unescaped(_ text: String) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let digits = String(decoding: Array(rest.prefix(2)), as: UTF8.self)
            rest = rest.dropFirst(2)
            bytes.append(try #require(UInt8(digits, radix: 16)))
        }
        return bytes
    }

    @Test("another charset gives its own bytes, and refuses what it has no word for")
    func charsets() throws {
        #expect(try text(["ü": "ß"], encoding: .isoLatin1) == "%FC=%DF")
        #expect(try text(["e": "€"], encoding: .windows1252) == "e=%80")
        #expect(throws: SessionError.self) { try text(["e": "€"], encoding: .isoLatin1) }
        #expect(throws: SessionError.self) { try text(["e": "e"], encoding: .utf16) }
    }

    // MARK: What can be chosen

    @Test("arrays without brackets, and with indices in them")
    func arrayEncodings() throws {
        let parameters: ParameterValue = ["a": ["x", ["b": "y"]]]
        #expect(try text(parameters) { $0.arrayEncoding = .noBrackets } == "a=x&a%5Bb%5D=y")
        #expect(try text(parameters) { $0.arrayEncoding = .indexInBrackets } == "a%5B0%5D=x&a%5B1%5D%5Bb%5D=y")
    }

    @Test("booleans as words")
    func boolEncodings() throws {
        #expect(try text(["t": true, "a": [false]]) { $0.boolEncoding = .literal } == "a%5B%5D=false&t=true")
        #expect(try text(["n": 1, "t": true, "z": 0]) { $0.boolEncoding = .literal } == "n=1&t=true&z=0")
    }

    @Test("null as an empty value, as a word, or not at all")
    func nullEncodings() throws {
        let parameters: ParameterValue = ["a": nil, "b": 1]
        #expect(try text(parameters) { $0.nullEncoding = .emptyValue } == "a=&b=1")
        #expect(try text(parameters) { $0.nullEncoding = .nullAsString } == "a=null&b=1")
        #expect(try text(parameters) { $0.nullEncoding = .dropKey } == "b=1")
    }

    @Test("spaces as plus signs, and plus signs still escaped")
    func spaceEncodings() throws {
        #expect(try text(["a b": " c+d "]) == "a%20b=%20c%2Bd%20")
        #expect(try text(["a b": " c+d "]) { $0.spaceEncoding = .plusReplaced } == "a+b=+c%2Bd+")
    }

    @Test("names in the order given")
    func unsorted() throws {
        #expect(try text(["b": 1, "a": ["d": 1, "c": 2]]) { $0.sortsNames = false } == "b=1&a%5Bd%5D=1&a%5Bc%5D=2")
    }
}
