// SPDX-License-Identifier: Apache-2.0
import Glibc
package import ProxyConfiguration
import StrictJSON

/// Log lines for people: each JSON object becomes a line in columns, the verdict first. The lines are made of the JSON on
/// the log's own thread, so that workers do the same whatever the format is.
package struct LogText: Sendable {
    /// Whether the reader shows colours (ECMA-48, SGR).
    package var hasColours: Bool

    package init(hasColours: Bool) {
        self.hasColours = hasColours
    }

    /// The form for a descriptor: nil for JSON. Unless the configuration says, a terminal gets text.
    package init?(_ format: LogConfiguration.Format?, descriptor: Int32) {
        let isTerminal = isatty(descriptor) == 1
        guard (format ?? (isTerminal ? .text : .json)) == .text else { return nil }
        hasColours = Self.showsColours(descriptor)
    }

    /// Whether a descriptor is a terminal with colours whose user wants them (no-color.org).
    package static func showsColours(_ descriptor: Int32) -> Bool {
        let isDumb = getenv("TERM").map { String(cString: $0) == "dumb" } ?? true
        let isRefused = getenv("NO_COLOR").map { $0.pointee != 0 } ?? false
        return isatty(descriptor) == 1 && !isDumb && !isRefused
    }

    /// - Parameter lines: whole lines, each with its newline.
    package func text(of lines: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(lines.count / 4)
        for line in lines.split(separator: UInt8(ascii: "\n")) {
            text += self.line(Array(line)).utf8
            text.append(UInt8(ascii: "\n"))
        }
        return text
    }

    private func line(_ bytes: [UInt8]) -> String {
        let document = JSONDocument(bytes: bytes, file: "")
        guard document.issues.isEmpty, case .object(let members)? = document.root?.content else {
            return Self.printable(String(decoding: bytes, as: UTF8.self))
        }
        let object = LineMembers(members)
        let event = object.text("event") ?? ""
        return event == "task" ? task(object) : self.event(event, members)
    }

    // MARK: A request

    private func task(_ task: LineMembers) -> String {
        let (verdict, colour) = verdict(task)
        // Of 2026-11-21T06:00:00.123Z the time of the day.
        let time = (task.text("time") ?? "").dropFirst(11).prefix(8)
        let status = task.text("status")
        var line = styled(Self.padded(verdict, 10), colour) + " \(time)  "
        line += styled(status ?? "---", Self.colour(ofStatus: status)) + "  "
        line += Self.padded(Self.duration(task.text("duration") ?? "0"), 8, isRight: true)
        line += "  \(task.text("method") ?? "-") \(Self.printable(task.text("url") ?? "-"))"
        let facts = facts(task)
        if !facts.isEmpty { line += styled("  " + facts.joined(separator: ", "), .dim) }
        if let error = task.text("error") {
            line += styled("  \(error): \(Self.printable(task.text("errorDetails") ?? ""))", .red)
        }
        return line
    }

    private func verdict(_ task: LineMembers) -> (String, Colour) {
        switch task.object("pinning")?.text("verdict") {
        case "pass": return ("pass", .green)
        case "fail": return ("FAIL", .boldRed)
        case "reportOnly": return ("REPORTED", .yellow)
        case "notPinned": return ("unpinned", .plain)
        case "unverified": return ("UNVERIFIED", .yellow)
        case "expired": return ("EXPIRED", .yellow)
        case let other?: return (Self.printable(other), .yellow)
        case nil: break
        }
        // A request that the proxy itself refuses has a status of the client's faults, and policy's; others have failed.
        if task.text("error") != nil { return task.text("status")?.first == "4" ? ("refused", .red) : ("failed", .red) }
        // A stored response was bound to the policy under which its server was verified.
        if task.text("cache") == "hit" { return ("stored", .green) }
        return task.text("method") == "CONNECT" ? ("tunnel", .plain) : ("no TLS", .plain)
    }

    private func facts(_ task: LineMembers) -> [String] {
        var facts: [String] = []
        if let bytes = task.text("bytesReceived").flatMap({ Int($0) }), bytes > 0 { facts.append(Self.size(bytes)) }
        if let cache = task.text("cache") { facts.append("cache \(cache)") }
        if let count = task.text("redirectCount"), count != "0" { facts.append("redirects \(count)") }
        if let last = task.last("transactions") {
            if last.text("reusedConnection") == "true" {
                facts.append("kept connection")
            } else if let version = last.text("tlsVersion"), task.object("pinning")?.text("verdict") != "fail" {
                facts.append("new \(version)")
            }
        }
        if let user = task.text("user") { facts.append("user \(Self.printable(user))") }
        return facts
    }

    private static func duration(_ text: String) -> String {
        guard let milliseconds = Double(text) else { return text }
        if milliseconds < 10 { return "\(tenths(milliseconds)) ms" }
        if milliseconds < 1000 { return "\(Int(milliseconds.rounded())) ms" }
        return "\(tenths(milliseconds / 1000)) s"
    }

    private static func size(_ bytes: Int) -> String {
        if bytes < 1 << 10 { return "\(bytes) B" }
        if bytes < 1 << 20 { return "\(tenths(Double(bytes) / 1024)) KB" }
        if bytes < 1 << 30 { return "\(tenths(Double(bytes) / 1_048_576)) MB" }
        return "\(tenths(Double(bytes) / 1_073_741_824)) GB"
    }

    private static func tenths(_ value: Double) -> String {
        let count = Int((value * 10).rounded())
        return count >= 1000 ? "\(count / 10)" : "\(count / 10).\(count % 10)"
    }

    private static func colour(ofStatus status: String?) -> Colour {
        switch status?.first {
        case "2", "3": .green
        case "4": .yellow
        case "5", nil: .red
        default: .plain
        }
    }

    // MARK: An event

    private func event(_ name: String, _ members: [DocumentValue.Member]) -> String {
        let colour: Colour =
            name.hasSuffix("Failed") ? .boldRed : name == "warning" || name == "restartNeeded" ? .yellow : .bold
        var text = styled(Self.padded(Self.printable(name), 10), colour)
        for member in members where member.name != "event" && member.name != "message" && member.name != "remedy" {
            let value = Self.printable(LineMembers.words(member.value))
            text +=
                ["listener", "address", "unixSocket", "url", "file", "pointer"].contains(member.name)
                ? " \(value)" : styled(" \(Self.printable(member.name))=", .dim) + value
        }
        let object = LineMembers(members)
        if let message = object.text("message") { text += " " + Self.printable(message) }
        if let remedy = object.text("remedy") { text += " (\(Self.printable(remedy)))" }
        return text
    }

    // MARK: Text

    private enum Colour: String {
        case plain = ""
        case bold = "1"
        case dim = "2"
        case red = "31"
        case boldRed = "1;31"
        case green = "32"
        case yellow = "33"
    }

    private func styled(_ text: String, _ colour: Colour) -> String {
        hasColours && colour != .plain ? "\u{1b}[\(colour.rawValue)m\(text)\u{1b}[0m" : text
    }

    private static func padded(_ text: String, _ width: Int, isRight: Bool = false) -> String {
        let padding = String(repeating: " ", count: max(0, width - text.count))
        return isRight ? padding + text : text + padding
    }

    /// Text of clients and servers without characters that a terminal obeys: control characters, and those that turn the
    /// direction of writing.
    private static func printable(_ text: String) -> String { text.legible }
}
