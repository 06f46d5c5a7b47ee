// SPDX-License-Identifier: Apache-2.0
import StrictJSON
import TestSupport
import Testing

@Suite("Strict JSON")
struct JSONDocumentTests {
    /// A minimal serialisation, to compare values.
    private static func rendered(_ value: DocumentValue) -> String {
        switch value.content {
        case .null: "null"
        case .bool(let flag): "\(flag)"
        case .number(let text): text
        case .string(let text): "\"\(text)\""
        case .array(let values): "[" + values.map(rendered).joined(separator: ",") + "]"
        case .object(let members):
            "{" + members.map { "\"\($0.name)\":\(rendered($0.value))" }.joined(separator: ",") + "}"
        case .unreadable: "?"
        }
    }

    @Test(
        "valid texts are read unchanged",
        arguments: [
            (#"{}"#, #"{}"#),
            (#" [ ] "#, #"[]"#),
            (#"[0,-0,1.50,1e6,-2E-3,12345678901234567890]"#, #"[0,-0,1.50,1e6,-2E-3,12345678901234567890]"#),
            (#"{"b":true,"a":[false,null]}"#, #"{"b":true,"a":[false,null]}"#),
            (#""\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00é😀""#, "\"\"\\/\u{8}\u{c}\n\r\tAé😀é😀\""),
            (#""\u0000""#, "\"\u{0}\""),
            ("\t\r\n1\n", "1"),
        ]
    )
    func goodTexts(text: String, expected: String) throws {
        let document = JSONDocument(text: text, file: "f.json")
        #expect(document.issues.isEmpty)
        #expect(Self.rendered(try #require(document.root)) == expected)
    }

    @Test(
        "a character that would disturb a message's line is not shown",
        arguments: ["\u{85}", "{\u{2028}", "{\"a\u{202e}b\": 1, \"a\u{202e}b\": 2}", "[1 \u{9b}]"]
    )
    func disturbingTexts(text: String) throws {
        let issues = JSONDocument(text: text, file: "f.json").issues
        #expect(!issues.isEmpty)
        #expect(issues.allSatisfy { !$0.description.unicodeScalars.contains(where: \.disturbsLine) })
    }

    @Test("no issue disturbs its line, whatever its file and values are")
    func disturbingIssue() {
        let issue = DocumentIssue(
            file: "a\u{7f}.json",
            message: "b\n\u{1b}[2Jc is no folder",
            remedy: "name d\u{2028}e"
        )
        #expect(issue.description == "a\u{fffd}.json: b\u{fffd}\u{fffd}[2Jc is no folder (name d\u{fffd}e)")
        #expect(issue.message == "b\u{fffd}\u{fffd}[2Jc is no folder" && issue.remedy == "name d\u{fffd}e")
    }

    @Test(
        "texts outside the standard are refused",
        arguments: [
            "", " ", "{", "[", "[1", "[1,", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\" 1}", "{a:1}", "{'a':1}", "[1,]",
            "{\"a\":1,}", "[,1]", "[1 2]", "[\"a\" \"b\"]", "01", "+1", "1.", ".5", "1e", "0x10", "-", "--1", "1_000",
            "NaN", "Infinity", "-Infinity", "True", "nul", "\"a", "\"a\nb\"", "\"\u{1}\"", #""\x""#, #""\u12""#,
            #""\u12G4""#, #""\ud800""#, #""\udc00""#, #""\ud800\u0041""#, "1 2", "{} x", "// c\n1", "1 /* c */",
            "# c\n1", "{\"a\":1,\"a\":2}", "\u{feff}1", "/", "[1}", "{\"a\":1]", "\"\\", "[1]]",
        ]
    )
    func badTexts(text: String) {
        #expect(!JSONDocument(text: text, file: "f.json").issues.isEmpty)
    }

    @Test(
        "bytes that are not UTF-8 are refused with their place",
        arguments: [
            [0x22, 0xff, 0x22], [0x22, 0xc0, 0xaf, 0x22], [0x22, 0xed, 0xa0, 0x80, 0x22],
            [0x22, 0xf4, 0x90, 0x80, 0x80],
            [0x22, 0xe2, 0x82], [0x22, 0xc3], [0x22, 0x80, 0x22], [0x22, 0xf5, 0x80, 0x80, 0x80],
        ] as [[UInt8]]
    )
    func notUTF8(bytes: [UInt8]) {
        let document = JSONDocument(bytes: bytes, file: "f.json")
        #expect(document.root == nil)
        #expect(document.issues.map(\.column) == [2])
    }

    @Test("every duplicate, comment and mistake is reported with its place")
    func allIssuesAtOnce() {
        let text = """
            {
              "a": { "x/y": 1, "x/y": 2 },  // why
              "b": [NaN, 01, "é\\q"],
              "a": true,
            }
            """
        let document = JSONDocument(text: text, file: "f.json")
        let places = document.issues.map { "\($0.pointer) \($0.line ?? 0):\($0.column ?? 0)" }
        #expect(places == ["/a/x~1y 2:20", " 2:33", "/b/0 3:9", "/b/1 3:14", "/b/2 3:20", "/a 4:3", " 4:12"])
        #expect(document.root != nil)
        #expect(
            document.issues[0].description
                == "f.json: /a/x~1y: duplicate key \"x/y\", first given in line 2 "
                + "(keep one of the two; line 2, column 20)"
        )
    }

    @Test(
        "an issue of an escape has its place, and reading continues",
        arguments: [
            (#""\q""#, "an unknown escape in a string"), (#""\u12G4""#, "\\u without four hexadecimal digits"),
            (#""\ud83d\u12""#, "\\u without four hexadecimal digits"), (#""\ud83dx""#, "half of a surrogate pair"),
            (#""\ud83d\n""#, "half of a surrogate pair"), (#""\ud83d\u0041""#, "half of a surrogate pair"),
        ]
    )
    func escapes(text: String, message: String) {
        let issues = JSONDocument(text: "[\(text), 01]", file: "f").issues
        #expect(issues.map(\.message) == [message, "01 is no JSON number"])
        #expect(issues.map(\.column) == [3, text.utf8.count + 4])
    }

    @Test("a depth of 64 levels is read and one of 65 is not")
    func depth() {
        func nested(_ levels: Int) -> JSONDocument {
            let text = String(repeating: "[", count: levels) + String(repeating: "]", count: levels)
            return JSONDocument(text: text, file: "f")
        }
        #expect(nested(64).issues.isEmpty)
        #expect(nested(65).issues.count == 1)
        #expect(nested(65).root == nil)
    }

    @Test("a text over the size bound is refused before it is read")
    func size() {
        let bytes = [UInt8](repeating: 0x20, count: JSONDocument.maximumBytes + 1)
        #expect(JSONDocument(bytes: bytes, file: "f").issues.first?.remedy == "split it")
    }

    @Test("a text of errors alone stops at a bound")
    func boundedIssues() {
        let text = "[" + String(repeating: "nan,", count: 5_000) + "0]"
        #expect(JSONDocument(text: text, file: "f").issues.count == JSONDocument.maximumIssues)
    }

    @Test("mutated texts are read unchanged, or have an issue")
    func fuzz() throws {
        let seeds = [
            #"{"version":1,"pinnedDomains":{"a.example":{"pins":["sha256/AAAA"],"x":[1,2.5e3,null,true]}}}"#,
            #"[{"a":"\u00e9\ud83d\ude00"},[[],{}],-0.5,"é😀"]"#,
        ].map { Array($0.utf8) }
        let alphabet = Array("{}[]\",:\\/u0123456789eE+-.truefalsn \n\t#*".utf8) + [0x00, 0x80, 0xc3, 0xff]
        var random = SeededGenerator(seed: 0x5eed)
        var accepted = 0
        for round in 0..<20_000 {
            var bytes = seeds[round % seeds.count]
            for _ in 0...(Int(random.next() % 3)) {
                let place = Int(random.next() % UInt64(bytes.count))
                let byte = alphabet[Int(random.next() % UInt64(alphabet.count))]
                switch random.next() % 4 {
                case 0: bytes[place] = byte
                case 1: bytes.insert(byte, at: place)
                case 2: bytes.remove(at: place)
                default: bytes.removeSubrange(place..<min(place + 5, bytes.count))
                }
                if bytes.isEmpty { bytes = [byte] }
            }
            let document = JSONDocument(bytes: bytes, file: "fuzz")
            guard document.issues.isEmpty else {
                for issue in document.issues { #expect((issue.line ?? 1) >= 1 && (issue.column ?? 1) >= 1) }
                continue
            }
            accepted += 1
            let value = Self.canonical(try #require(document.root))
            let again = JSONDocument(text: value, file: "again")
            #expect(again.issues.isEmpty)
            #expect(Self.canonical(try #require(again.root)) == value)
        }
        #expect(accepted > 500)
    }

    /// Valid JSON again, for the round trip.
    private static func canonical(_ value: DocumentValue) -> String {
        func quoted(_ text: String) -> String {
            var result = "\""
            for scalar in text.unicodeScalars {
                let digits = String(scalar.value, radix: 16)
                switch scalar {
                case "\"", "\\": result += "\\" + String(scalar)
                case "\u{0}"..."\u{1f}": result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                default: result.unicodeScalars.append(scalar)
                }
            }
            return result + "\""
        }
        return switch value.content {
        case .string(let text): quoted(text)
        case .array(let values): "[" + values.map(canonical).joined(separator: ",") + "]"
        case .object(let members):
            "{" + members.map { "\(quoted($0.name)):\(canonical($0.value))" }.joined(separator: ",") + "}"
        default: rendered(value)
        }
    }
}
