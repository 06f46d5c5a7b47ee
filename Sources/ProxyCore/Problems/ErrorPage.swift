// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust

/// A problem as a page for browsers: the same content as the problem document, without scripts or outside resources.
enum ErrorPage {
    /// The value of Content-Type, with two fields more. The page contains text of servers (subjects of certificates): nothing in it is run, whatever it says.
    static let contentType: StaticString =
        """
        text/html; charset=utf-8\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r
        X-Content-Type-Options: nosniff
        """

    /// Whether a request asks for HTML by name, as browsers do. Programs that ask for anything get the problem document.
    static func isWanted(by fields: borrowing HeaderFields) -> Bool {
        var index = fields.first(.accept)
        var wants = false
        while let current = index {
            let value = fields.value(at: current)
            var members = ListMembers()
            while let range = members.next(in: value) {
                let member = value.extracting(range)
                let end = member.firstIndex(of: UInt8(ascii: ";")) ?? member.count
                let type = member.extracting(member.trimmingBlanks(0..<end))
                if type.equalsIgnoringCase("application/problem+json") || type.equalsIgnoringCase("application/json") {
                    return false
                }
                if type.equalsIgnoringCase("text/html") { wants = true }
            }
            index = fields.next(.accept, after: current)
        }
        return wants
    }

    static func write(_ problem: Problem, to body: inout ByteBuffer) {
        let title = "\(problem.code.title)"
        body.append(text: beginning(title: "\(problem.status): \(escaped(title))"))
        body.append(text: "<h1>\(escaped(title))</h1>\n<p>\(escaped(problem.details))</p>\n")
        if let evaluation = problem.evaluation {
            body.append(text: "<h2>What \(escaped(evaluation.host.description)) offered</h2>\n<table>\n")
            body.append(text: "<tr><th scope=\"col\">Key</th><th scope=\"col\">Certificate</th></tr>\n")
            for offer in evaluation.offeredPins {
                let subject = escaped(offer.subject)
                body.append(
                    text: "<tr><td><code>\(escaped(offer.pin.description))</code></td><td>\(subject)</td></tr>\n"
                )
            }
            body.append(text: "</table>\n<h2>Which keys are expected</h2>\n<ul>\n")
            for pin in evaluation.expectedPins {
                body.append(text: "<li><code>\(escaped(pin.description))</code></li>\n")
            }
            body.append(text: "</ul>\n")
        }
        body.append(text: "<p class=\"code\"><code>\(problem.code.rawValue)</code>, status \(problem.status). ")
        body.append(text: "This page is from pinproxy, the proxy between this browser and the server.</p>\n</main>\n")
    }

    private static func beginning(title: String) -> String {
        """
        <!DOCTYPE html>
        <html lang="en">
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <title>\(title)</title>
        <style>
        :root { color-scheme: light dark; font: 100%/1.5 system-ui, sans-serif }
        body { margin: 0 }
        main { max-width: 46rem; margin: 4rem auto; padding: 0 1.25rem; overflow-wrap: anywhere }
        h1 { font-size: 1.6rem; line-height: 1.25; border-left: .3rem solid #c0392b; padding-left: .8rem }
        h2 { font-size: 1.05rem; margin-top: 2rem }
        table { border-collapse: collapse; width: 100% }
        th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid #8885 }
        code { font-size: .9em }
        .code { margin-top: 3rem; opacity: .75; font-size: .9rem }
        </style>
        <main>

        """
    }

    private static func escaped(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            case "\n": result += "<br>"
            case let scalar where scalar.properties.generalCategory == .control: result += "\u{fffd}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}
