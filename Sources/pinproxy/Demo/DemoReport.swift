// SPDX-License-Identifier: Apache-2.0
import ProxyCore

/// The demonstration, for people.
struct DemoReport {
    var demo: Demo
    var style: TerminalStyle

    private static let column = 22

    var text: String {
        var text = "\n" + style("pinproxy demo", .bold) + "\n\n"
        text += paragraph(
            """
            Everything happens inside this process: a certificate authority and a key made a moment ago, a TLS \
            origin that proves to have that key, the proxy, and a client that knows nothing of TLS.
            """
        )
        text += "\n"
        text += row("proxy", "http://\(demo.proxyAddress)")
        text += row("origin", "\(demo.originAddress), TLS; both hosts below lead to it")
        text += scene(demo.right, title: "1. The pin is the key that the origin has", mark: .green)
        text += scene(demo.wrong, title: "2. The pin is another key", mark: .red)
        text += "\n" + verdict + "\n"
        return text
    }

    private func scene(_ scene: Demo.Scene, title: String, mark: TerminalStyle.Mark) -> String {
        let rule = String(repeating: "-", count: TextLayout.width - title.count - 1)
        var text = "\n\(style(title, .bold)) \(style(rule, .dim))\n\n"
        text += row("the client asked", "GET http://\(scene.host)\(Demo.path)")
        text += row("and saw", scene.response.statusLine, mark, .bold)
        if let status = scene.response.field("Proxy-Status") { text += row("", "Proxy-Status: \(status)", .dim) }
        let body = scene.response.body
        text += body.hasPrefix("{") ? json(body) : row("", body.trimmingLineEnd, .dim)
        text += "\n"
        let sent = scene.originReceived
        // Nothing, after a refusal, is as it should be.
        let isAsItShouldBe = (mark == .green) == (sent > 0)
        let received = sent == 1 ? "1 byte of requests" : "\(sent) bytes of requests"
        text += row("the origin received", received, isAsItShouldBe ? .green : .red, .bold)
        text += "\n" + row("the log says", "")
        text += log(scene.logLine, mark)
        return text
    }

    /// The line of the task log as `run` shows it on a terminal, broken to the width.
    private func log(_ line: String, _ mark: TerminalStyle.Mark) -> String {
        let margin = "    "
        let text = String(decoding: LogText(hasColours: false).text(of: Array(line.utf8)), as: UTF8.self)
        let lines = TextLayout.lines(text.trimmingLineEnd, width: TextLayout.width - margin.count)
        // The verdict is the first word.
        let verdict = lines.first?.prefix { $0 != " " } ?? ""
        let first = style(String(verdict), mark, .bold) + (lines.first?.dropFirst(verdict.count) ?? "")
        return ([first] + lines.dropFirst().map { style($0, .dim) }).map { margin + $0 + "\n" }.joined()
    }

    private func json(_ text: String) -> String {
        let margin = "    "
        return TextLayout.jsonLines(text.trimmingLineEnd, width: TextLayout.width - margin.count)
            .map { margin + style($0, .dim) + "\n" }
            .joined()
    }

    private var verdict: String {
        demo.isAsItShouldBe
            ? paragraph(
                """
                As it should be: the right pin let the request through; the wrong one ended the TLS handshake before \
                a single byte of the request had left.
                """,
                .green
            )
            : paragraph("NOT as it should be: see above. Please report this.", .red)
    }

    private func row(_ label: String, _ text: String, _ marks: TerminalStyle.Mark...) -> String {
        TextLayout.row("  \(label)", text, column: Self.column) { line in
            marks.reduce(line) { style($0, $1) }
        }
    }

    private func paragraph(_ text: String, _ mark: TerminalStyle.Mark? = nil) -> String {
        TextLayout.lines(text, width: TextLayout.width)
            .map { line in (mark.map { style(line, $0) } ?? line) + "\n" }
            .joined()
    }
}

extension String {
    fileprivate var trimmingLineEnd: String { hasSuffix("\n") ? String(dropLast()) : self }
}
