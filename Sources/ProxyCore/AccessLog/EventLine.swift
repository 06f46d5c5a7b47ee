// SPDX-License-Identifier: Apache-2.0
package import ProxyConfiguration
import ServerTrust
package import StrictJSON

/// One JSON object on one line of the standard error: an event for a supervising program or an operator, apart from
/// single requests. It is written at once, up to 4 KB in one write, so it is not for the request path.
package struct EventLine: Sendable {
    private var line = JSONLine()

    package init(event: String) { line.add("event", event) }

    /// Chooses the form of all events that follow: text on a terminal and where the configuration says so, else JSON.
    package static func useFormat(_ format: LogConfiguration.Format?) {
        EventOutput.standard.use(LogText(format, descriptor: EventOutput.standard.descriptor))
    }

    /// Adds a member; members keep the order of the calls.
    package func with(_ name: String, _ value: String) -> EventLine { with { $0.add(name, value) } }

    package func with(_ name: String, _ value: Int) -> EventLine { with { $0.add(name, value) } }

    package func with(_ name: String, _ value: JSONLine) -> EventLine { with { $0.add(name, value) } }

    package func with(_ name: String, strings: [String]) -> EventLine { with { $0.add(name, strings: strings) } }

    private func with(_ add: (inout JSONLine) -> Void) -> EventLine {
        var event = self
        add(&event.line)
        return event
    }

    /// The object, without the line's newline.
    package var json: String { line.object }

    /// Writes the line. A failure has no place where it could be reported.
    package func write() {
        EventOutput.standard.write(line.text)
    }

    /// Writes the line if `log.level` includes the severity.
    package func write(_ severity: LogConfiguration.Level, at level: LogConfiguration.Level) {
        if severity >= level { write() }
    }
}
