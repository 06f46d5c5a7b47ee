// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import ProxyCore

@Suite("Log lines for people")
struct LogTextTests {
    private func text(_ lines: String, hasColours: Bool = false) -> String {
        String(decoding: LogText(hasColours: hasColours).text(of: Array(lines.utf8)), as: UTF8.self)
    }

    private static let passed = """
        {"time":"2026-11-21T06:00:01.123Z","event":"task","taskIdentifier":1,"client":"127.0.0.1:1","method":"GET",\
        "url":"https://api.example.com/v1","status":200,"bytesSent":0,"bytesReceived":1290,"duration":12.4,"redirectCount":0,\
        "pinning":{"mode":"publicKey","verdict":"pass"},"transactions":[{"url":"x","reusedConnection":false,"tlsVersion":"TLSv1.3"}]}

        """
    private static let failed = """
        {"time":"2026-11-21T06:00:02.123Z","event":"task","client":"127.0.0.1:1","method":"GET","url":"https://b.test/",\
        "status":502,"bytesSent":0,"bytesReceived":0,"duration":3.1,"error":"pin_mismatch","errorDetails":"None of the keys.",\
        "pinning":{"mode":"publicKey","verdict":"fail"},"transactions":[{"url":"x","reusedConnection":false}]}

        """

    @Test("the verdict comes first, and columns stand below each other")
    func columns() {
        #expect(
            text(Self.passed + Self.failed) == """
                pass       06:00:01  200     12 ms  GET https://api.example.com/v1  1.3 KB, new TLSv1.3
                FAIL       06:00:02  502    3.1 ms  GET https://b.test/  pin_mismatch: None of the keys.

                """
        )
    }

    @Test("colours are for readers that show them")
    func colours() {
        let coloured = text(Self.passed + Self.failed, hasColours: true)
        #expect(coloured.contains("\u{1b}[32mpass      \u{1b}[0m"))
        #expect(coloured.contains("\u{1b}[1;31mFAIL      \u{1b}[0m"))
        #expect(coloured.replacing(/\u{1b}\[[0-9;]*m/, with: "") == text(Self.passed + Self.failed))
        #expect(!text(Self.passed).contains("\u{1b}"))
    }

    @Test(
        "without a server's verdict the first word is the action",
        arguments: [
            (#""method":"GET","error":"host_denied","errorDetails":"x","status":403"#, "refused "),
            (#""method":"GET","error":"dns_failed","errorDetails":"x","status":502"#, "failed "),
            (#""method":"GET","error":"client_closed","errorDetails":"x""#, "failed "),
            (#""method":"GET","cache":"hit","status":200"#, "stored "),
            (#""method":"CONNECT","status":200"#, "tunnel "),
            (#""method":"GET","status":200"#, "no TLS "),
            (#""method":"GET","pinning":{"verdict":"notPinned"}"#, "unpinned "),
            (#""method":"GET","pinning":{"verdict":"reportOnly"}"#, "REPORTED "),
            (#""method":"GET","pinning":{"verdict":"unverified"}"#, "UNVERIFIED "),
            (#""method":"GET","pinning":{"verdict":"expired"}"#, "EXPIRED "),
        ]
    )
    func verdicts(members: String, word: String) {
        #expect(text("{\"event\":\"task\",\(members)}\n").hasPrefix(word))
    }

    @Test("a client's bytes do not steer a terminal")
    func hostile() {
        let line = """
            {"event":"task","method":"GET","url":"http://a/\\u001b]0;x\\u0007\\u202e\\u009b31m","errorDetails":"a\\nb","error":"x"}

            """
        let shown = text(line)
        #expect(shown.contains("http://a/\u{fffd}]0;x\u{fffd}\u{fffd}\u{fffd}31m  x: a\u{fffd}b\n"))
        #expect(shown.split(separator: "\n").count == 1)
        #expect(text("no JSON \u{1b}[2J\n") == "no JSON \u{fffd}[2J\n")
    }

    @Test("a refused connection is no new connection, and events are words")
    func details() {
        let failed =
            #"{"event":"task","pinning":{"verdict":"fail"},"transactions":[{"tlsVersion":"TLSv1.3","reusedConnection":false}]}"#
        #expect(!text(failed + "\n").contains("TLSv1.3"))
        #expect(text(failed.replacing("fail", with: "pass") + "\n").contains("new TLSv1.3"))
        let pins = #"{"event":"pins","domain":"a.test","matched":["x","y"],"neverMatched":[]}"#
        #expect(text(pins + "\n") == "pins       domain=a.test matched=x,y neverMatched=none\n")
    }

    @Test("events have their name, their place and their message")
    func events() {
        #expect(
            text("{\"event\":\"listening\",\"listener\":\"forward\",\"address\":\"127.0.0.1:8080\"}\n")
                == "listening  forward 127.0.0.1:8080\n"
        )
        #expect(
            text(
                #"{"event":"reloadFailed","generation":1,"file":"a.json","pointer":"/x","message":"bad","remedy":"mend it"}"#
                    + "\n"
            ) == "reloadFailed generation=1 a.json /x bad (mend it)\n"
        )
    }

    @Test(
        "durations and sizes have three digits",
        arguments: [
            ("0.04", "0.0 ms"), ("9.94", "9.9 ms"), ("123.6", "124 ms"), ("1234.5", "1.2 s"), ("600000", "600 s"),
        ]
    )
    func durations(number: String, shown: String) {
        #expect(text("{\"event\":\"task\",\"duration\":\(number)}\n").contains("  \(shown)  "))
    }
}
