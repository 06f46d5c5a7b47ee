// SPDX-License-Identifier: Apache-2.0
import StrictJSON
import Testing

@Suite("Reading a document")
struct DocumentReaderTests {
    private enum Fruit: String, CaseIterable { case apple, pear }

    private func reader(_ text: String) -> DocumentReader {
        DocumentReader(JSONDocument(text: text, file: "c.json"))
    }

    @Test("values of the right type come back without an issue")
    func goodValues() throws {
        let reader = reader(#"{"s":"t","b":true,"i":7,"l":["x"],"o":{},"f":"pear"}"#)
        let root = try #require(reader.rootObject())
        #expect(root.string("s") == "t")
        #expect(root.bool("b") == true)
        #expect(root.int("i", in: 0...9) == 7)
        #expect(root.strings("l") == ["x"])
        #expect(root.object("o") != nil)
        #expect(root["f"]?.choice(Fruit.self) == .pear)
        #expect(root.string("absent") == nil)
        root.finish()
        #expect(reader.issues.isEmpty)
    }

    @Test("each value of a wrong type or range is one issue at its pointer")
    func wrongValues() throws {
        let reader = reader(#"{"s":1,"b":"true","i":10,"h":1.0,"l":["x",2],"o":null,"f":"paer"}"#)
        let root = try #require(reader.rootObject())
        _ = root.string("s")
        _ = root.bool("b")
        _ = root.int("i", in: 0...9)
        _ = root.int("h", in: 0...9)
        #expect(root.strings("l") == ["x"])
        _ = root.object("o")
        _ = root["f"]?.choice(Fruit.self)
        _ = root.required("must")
        root.finish()
        #expect(reader.issues.map(\.pointer) == ["/s", "/b", "/i", "/h", "/l/1", "/o", "/f", ""])
        #expect(reader.issues[6].remedy.hasPrefix("did you mean \"pear\"?"))
    }

    @Test("an unknown key is reported once, with the likely one")
    func unknownKeys() throws {
        let reader = reader(#"{"pinningMod":1,"zzz":2,"pins":[]}"#)
        let root = try #require(reader.rootObject())
        _ = root["pinningMode"]
        _ = root["pins"]
        root.finish()
        #expect(
            reader.issues.map(\.description) == [
                "c.json: /pinningMod: unknown key \"pinningMod\" (did you mean \"pinningMode\"?; line 1, column 2)",
                "c.json: /zzz: unknown key \"zzz\" "
                    + "(take it out; known here: \"pinningMode\", \"pins\"; line 1, column 17)",
            ]
        )
    }

    @Test("a value that the scanner could not read is not reported twice")
    func unreadableOnce() throws {
        let reader = reader(#"{"a":NaN}"#)
        #expect(try #require(reader.rootObject()).string("a") == nil)
        #expect(reader.issues.count == 1)
    }

    @Test("of 200,000 unknown keys the first hundred are reported, then their number")
    func unknownKeysWithoutEnd() throws {
        let keys = (0..<200_000).map { "\"unknown\($0)\":0" }.joined(separator: ",")
        let reader = reader("{\(keys),\"b\":true}")
        let root = try #require(reader.rootObject())
        for index in 0..<40 { _ = root["known\(index)"] }
        #expect(root.bool("b") == true)
        root.finish()
        #expect(reader.issueCount == 200_000 && reader.issues.total == 200_000)
        #expect(reader.issues.count == 101 && reader.issuesInOrder.count == 101)
        #expect(reader.issues.reduce(0) { $0 + $1.description.utf8.count } < 100_000)
        #expect(
            reader.issuesInOrder.last?.description
                == "c.json: and 199900 more errors, which are not shown (mend those above first)"
        )
    }

    @Test("the first hundred warnings and wrong values are kept")
    func wrongValuesWithoutEnd() throws {
        let reader = reader("[" + String(repeating: "1,", count: 999) + "1]")
        let root = DocumentElement(value: try #require(reader.root), pointer: "", reader: reader)
        #expect(root.strings() == [])
        for _ in 0..<1_000 { root.warn("odd", remedy: "", code: "c") }
        #expect(reader.issues.count == 101 && reader.issues.total == 1_000)
        #expect(reader.warnings.count == 101 && reader.warnings.total == 1_000 && reader.warnings[99].code == "c")
        #expect(reader.warnings[100].message == "and 900 more warnings, which are not shown")
    }

    @Test("the issues of many documents are a hundred together")
    func manyDocuments() {
        let issues = (0..<60).map { DocumentIssue(file: "\($0)", message: "m", remedy: "") }
        let joined = IssueList.joined([issues, IssueList.joined([issues, issues]), issues])
        #expect(joined.count == 101 && joined.total == 240)
        #expect(joined.last?.file == "40" && joined.last?.others == 140)
        #expect(IssueList.joined([issues]) == issues && issues.total == 60)
    }

    @Test("an issue's texts are cut, and a long name is not repeated")
    func longTexts() throws {
        let name = String(repeating: "n", count: 100_000)
        let reader = reader("{\"\(name)\":[" + String(repeating: "1,", count: 100_000) + "1]}")
        let root = try #require(reader.rootObject())
        #expect(root[name]?.strings() == [])
        root[name]?.report(name, remedy: name)
        let issue = DocumentIssue(file: "f", pointer: name, message: name, remedy: name)
        for issue in reader.issues + [issue] { #expect(issue.description.utf8.count < 7_000) }
        #expect(JSONPointer.member(name, of: "/a").utf8.count < 150)
        #expect(JSONPointer.member("a~/b\n", of: "/a") == "/a/a~0~1b\u{fffd}")
    }

    @Test("names are compared by bytes, also in large objects")
    func namesByBytes() throws {
        let many = (0..<100).map { "\"k\($0)\":0" }.joined(separator: ",")
        for rest in ["", "," + many] {
            // U+212A, the sign of Kelvin, is canonically equivalent to K.
            let reader = reader("{\"\u{212a}ey\":1,\"b\":true\(rest)}")
            let root = try #require(reader.rootObject())
            #expect(root["Key"] == nil && root.bool("b") == true)
            for index in 0..<100 { _ = root["k\(index)"] }
            root.finish()
            #expect(reader.issues.map(\.pointer) == ["/\u{212a}ey"])
        }
    }
}
