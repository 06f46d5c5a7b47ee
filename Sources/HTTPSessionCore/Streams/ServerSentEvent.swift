// SPDX-License-Identifier: Apache-2.0
/// An event of `text/event-stream` (HTML Living Standard, section 9.2).
public struct ServerSentEvent: Sendable, Hashable {
    /// The type of the event, which the server names `event`.
    public var event: String
    /// The lines of data, joined by line feeds.
    public var data: String
    /// The last event ID when the event was complete; empty when the stream has set none.
    public var id: String
    /// The time between connections (`retry`) that the stream had set when the event was complete; nil when it has set none.
    public var retry: Duration?

    /// An event from its parts.
    public init(event: String = "message", data: String, id: String = "", retry: Duration? = nil) {
        self.event = event
        self.data = data
        self.id = id
        self.retry = retry
    }
}

/// Makes events of lines. A value.
struct ServerSentEventParser {
    /// The last event ID; nil before the stream has set one.
    private(set) var lastEventID: String?
    /// The reconnection time that the stream has set.
    private(set) var retry: Duration?
    private var event = ""
    private var data: String?
    private var isAtStart = true

    /// - Parameter line: without its end.
    /// - Returns: the event that an empty line completes.
    mutating func didReceiveLine(_ line: [UInt8]) -> ServerSentEvent? {
        var line = line[...]
        if isAtStart {
            isAtStart = false
            if line.starts(with: [0xEF, 0xBB, 0xBF]) { line = line.dropFirst(3) }
        }
        guard !line.isEmpty else { return dispatch() }
        let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
        // A comment keeps connections open.
        guard colon > line.startIndex else { return nil }
        var value = line[colon...].dropFirst()
        if value.first == UInt8(ascii: " ") { value = value.dropFirst() }
        // The format is UTF-8, and invalid bytes are replaced, as by browsers.
        let text = String(decoding: value, as: UTF8.self)
        switch String(decoding: line[..<colon], as: UTF8.self) {
        case "event": event = text
        case "data": data = data.map { "\($0)\n\(text)" } ?? text
        // With a control character it could not be sent as a field; the standard names NUL.
        case "id" where value.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }): lastEventID = text
        case "retry":
            guard !value.isEmpty, value.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
                let milliseconds = Int64(text)
            else { break }
            retry = .milliseconds(milliseconds)
        default: break
        }
        return nil
    }

    private mutating func dispatch() -> ServerSentEvent? {
        defer {
            event = ""
            data = nil
        }
        guard let data else { return nil }
        return ServerSentEvent(
            event: event.isEmpty ? "message" : event,
            data: data,
            id: lastEventID ?? "",
            retry: retry
        )
    }
}
