// SPDX-License-Identifier: Apache-2.0

/// A span as OpenTelemetry has it (`opentelemetry/proto/trace/v1/trace.proto`). Times are nanoseconds since 1970.
struct OTLPSpan: Sendable {
    enum Kind: UInt64 {
        case `internal` = 1
        case server = 2
        case client = 3
    }

    enum Value: Equatable, Sendable {
        case text([UInt8])
        case number(Int)
        case flag(Bool)
        /// A list with one element.
        case list([UInt8])
    }

    let trace: TraceContext.TraceID
    let span: UInt64
    /// 0 for the first span of a trace.
    let parent: UInt64
    /// Whether the parent is a span of another program.
    var hasRemoteParent = false
    /// The flags of the trace context.
    let flags: UInt8
    var state: [UInt8] = []
    let name: String
    let kind: Kind
    let start: UInt64
    let end: UInt64
    var attributes: [(key: String, value: Value)] = []
    var hasFailed = false

    mutating func set(_ key: String, _ text: String) { attributes.append((key, .text(Array(text.utf8)))) }

    mutating func set(_ key: String, _ text: [UInt8]) { attributes.append((key, .text(text))) }

    mutating func set(_ key: String, _ number: Int) { attributes.append((key, .number(number))) }
}
