// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import StrictJSON
import Testing

@testable import pinproxy

@Suite("Command line: parts")
struct CommandLinePartsTests {
    @Test("a server's address is host, host and port, or https URL")
    func serverAddress() throws {
        #expect(try ServerAddress("API.example.com.").description == "api.example.com:443")
        #expect(try ServerAddress("api.example.com:8443").description == "api.example.com:8443")
        #expect(try ServerAddress("https://api.example.com:8443/").description == "api.example.com:8443")
        #expect(try ServerAddress("bücher.example").description == "xn--bcher-kva.example:443")
        #expect(try ServerAddress("127.0.0.1:1").description == "127.0.0.1:1")
        #expect(try ServerAddress("[::1]:8443").description == "[::1]:8443")
        #expect(try ServerAddress("::1").description == "[::1]:443")
    }

    @Test(
        "an invalid host or port is wrong usage",
        arguments: [
            "", ":443", "host:", "host:0", "host:65536", "host:+1", "host:４", "a b", "host/path", "*.host", "[::1",
        ]
    )
    func badServerAddress(text: String) {
        let failure = #expect(throws: CommandFailure.self) { try ServerAddress(text) }
        #expect(failure?.exitCode == .usage)
    }

    @Test("JSON is broken between members without loss")
    func jsonLines() {
        let json = #"{"a":"one, two \", three","b":[1,2,3],"c":{"d":"eeeeeeeeeeeeeeee"}}"#
        let lines = TextLayout.jsonLines(json, width: 29)
        #expect(lines == [#"{"a":"one, two \", three","#, #""b":[1,2,3],"#, #""c":{"d":"eeeeeeeeeeeeeeee"}}"#])
        #expect(lines.joined() == json)
    }

    @Test("text is broken at spaces, and long words anywhere")
    func lines() {
        #expect(TextLayout.lines("one two three", width: 7) == ["one two", "three"])
        #expect(TextLayout.lines("abcdefghij", width: 4) == ["abcd", "efgh", "ij"])
        #expect(TextLayout.lines("a\n\nb", width: 4) == ["a", "", "b"])
    }

    @Test("a line for programs has JSON's escapes")
    func eventLine() {
        #expect(JSONString.quoted("a\"b\\c\n\u{1}é") == #""a\"b\\c\n\u0001é""#)
    }
}
