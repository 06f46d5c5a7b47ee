import ProxyCore

/// One JSON object on one line of the standard error: what a program that starts pinproxy waits for.
struct EventLine {
    private var text: String

    init(event: String) {
        text = "{\"event\":" + EventLine.quoted(event)
    }

    /// Adds a member; the order is that of the calls.
    func with(_ name: String, _ value: String) -> EventLine {
        var line = self
        line.text += ",\(EventLine.quoted(name)):\(EventLine.quoted(value))"
        return line
    }

    func write() {
        Output.error(text + "}\n")
    }

    /// Writes it if `log.level` lets events of that severity through.
    func write(_ severity: LogConfiguration.Level, at level: LogConfiguration.Level) {
        if severity >= level { write() }
    }

    /// A JSON string (RFC 8259, section 7).
    static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case "\u{0}"..."\u{1f}", "\u{7f}":
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
