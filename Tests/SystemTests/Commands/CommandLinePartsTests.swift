// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import StrictJSON
import Testing

@testable import pinproxy

@Suite("Command line: parts")
struct CommandLinePartsTests {
    @Test("a server's address is a host with or without port, IPv6 with or without brackets, or an https URL")
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
        "what is no host and no port from 1 to 65535 is refused as usage",
        arguments: [
            "", ":443", "host:", "host:0", "host:65536", "host:+1", "host:４", "a b", "host/path", "*.host", "[::1",
        ]
    )
    func badServerAddress(text: String) {
        let failure = #expect(throws: CommandFailure.self) { try ServerAddress(text) }
        #expect(failure?.exitCode == .usage)
    }

    @Test("JSON is broken into lines between members, and nothing of it is lost")
    func jsonLines() {
        let json = #"{"a":"one, two \", three","b":[1,2,3],"c":{"d":"eeeeeeeeeeeeeeee"}}"#
        let lines = TextLayout.jsonLines(json, width: 29)
        #expect(lines == [#"{"a":"one, two \", three","#, #""b":[1,2,3],"#, #""c":{"d":"eeeeeeeeeeeeeeee"}}"#])
        #expect(lines.joined() == json)
    }

    @Test("text is broken at spaces, a word that is too long anywhere")
    func lines() {
        #expect(TextLayout.lines("one two three", width: 7) == ["one two", "three"])
        #expect(TextLayout.lines("abcdefghij", width: 4) == ["abcd", "efgh", "ij"])
        #expect(TextLayout.lines("a\n\nb", width: 4) == ["a", "", "b"])
    }

    @Test("a line for programs escapes what JSON wants escaped")
    func eventLine() {
        #expect(JSONString.quoted("a\"b\\c\n\u{1}é") == #""a\"b\\c\n\u0001é""#)
    }
}
