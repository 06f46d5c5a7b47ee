import ServerTrust
import StrictJSON

/// One JSON object on one line of the standard error: what a program that starts pinproxy waits for, and what an
/// operator should know of apart from single requests. Written at once, 4 KB in one write: not for the path of a request.
package struct EventLine: Sendable {
    private var text: String

    package init(event: String) {
        text = "{\"event\":" + JSONString.quoted(event)
    }

    /// Adds a member; the order is that of the calls.
    package func with(_ name: String, _ value: String) -> EventLine { with(name, json: JSONString.quoted(value)) }

    package func with(_ name: String, _ value: Int) -> EventLine { with(name, json: "\(value)") }

    /// - Parameter json: a value that is JSON already.
    package func with(_ name: String, json: String) -> EventLine {
        var line = self
        line.text += ",\(JSONString.quoted(name)):\(json)"
        return line
    }

    /// The object, without the end of the line.
    package var json: String { text + "}" }

    /// There is nobody to tell when that fails.
    package func write() {
        EventOutput.standard.write(json + "\n")
    }

    /// Writes it if `log.level` lets events of that severity through.
    package func write(_ severity: LogConfiguration.Level, at level: LogConfiguration.Level) {
        if severity >= level { write() }
    }
}
