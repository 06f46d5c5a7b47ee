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

    @Test("a key nobody asked for is reported once, with the key that was probably meant")
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
}
