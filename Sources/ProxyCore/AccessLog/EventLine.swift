// SPDX-License-Identifier: Apache-2.0
package import ProxyConfiguration
import ServerTrust
import StrictJSON

/// One JSON object on one line of the standard error: an event for a supervising program or an operator, apart from
/// single requests. It is written at once, up to 4 KB in one write, so it is not for the request path.
package struct EventLine: Sendable {
    private var text: String

    package init(event: String) {
        text = "{\"event\":" + JSONString.quoted(event)
    }

    /// Chooses the form of all events that follow: text on a terminal and where the configuration says so, else JSON.
    package static func useFormat(_ format: LogConfiguration.Format?) {
        EventOutput.standard.use(LogText(format, descriptor: EventOutput.standard.descriptor))
    }

    /// Adds a member; members keep the order of the calls.
    package func with(_ name: String, _ value: String) -> EventLine { with(name, json: JSONString.quoted(value)) }

    package func with(_ name: String, _ value: Int) -> EventLine { with(name, json: "\(value)") }

    /// - Parameter json: a value that is already JSON.
    package func with(_ name: String, json: String) -> EventLine {
        var line = self
        line.text += ",\(JSONString.quoted(name)):\(json)"
        return line
    }

    /// The object, without the line's newline.
    package var json: String { text + "}" }

    /// Writes the line. A failure has no place where it could be reported.
    package func write() {
        EventOutput.standard.write(json + "\n")
    }

    /// Writes the line if `log.level` includes the severity.
    package func write(_ severity: LogConfiguration.Level, at level: LogConfiguration.Level) {
        if severity >= level { write() }
    }
}
