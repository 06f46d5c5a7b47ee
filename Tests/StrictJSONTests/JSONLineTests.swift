// SPDX-License-Identifier: Apache-2.0
import StrictJSON
import Testing

@Suite("One JSON object on a line")
struct JSONLineTests {
    @Test("members keep their order, and each kind of value its form")
    func members() {
        var inner = JSONLine()
        #expect(inner.object == "{}")
        inner.add("none", strings: [])
        var line = JSONLine()
        line.add(membersOf: JSONLine())
        line.add("text", "a")
        line.add("is", true)
        line.add("count", -7)
        line.add("time", number: "1.25")
        line.addNull("end")
        line.add("names", strings: ["a", "\"b\""])
        line.add("objects", array: [inner.object, "{}"])
        line.add("inner", inner)
        line.add(membersOf: inner)
        line.add(membersOf: JSONLine())
        #expect(
            line.text == #"{"text":"a","is":true,"count":-7,"time":1.25,"end":null,"names":["a","\"b\""],"#
                + #""objects":[{"none":[]},{}],"inner":{"none":[]},"none":[]}"# + "\n"
        )
    }

    @Test("a string escapes quotes, backslashes and what disturbs a line, and nothing else")
    func strings() {
        #expect(JSONString.quoted("/é\u{1F600}") == "\"/é\u{1F600}\"")
        #expect(JSONString.quoted("\"\\\n\t\u{7f}\u{2028}\u{E0001}") == #""\"\\\n\u0009\u007f\u2028\udb40\udc01""#)
        #expect(JSONString.array(["a\u{1}", ""]) == #"["a\u0001",""]"#)
    }

    @Test("names are escaped as strings are")
    func names() {
        var line = JSONLine()
        line.add("a\"b", 1)
        #expect(line.object == #"{"a\"b":1}"#)
    }
}
