// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The trace that a request belongs to, and the span of its caller: `traceparent` and `tracestate` of W3C Trace Context, level 1,
/// with the random flag of level 2.
///
/// A context that two readers could read differently is not read at all: the request then begins a trace of its own.
struct TraceContext: Equatable, Sendable {
    /// 16 bytes, which are not all zero.
    struct TraceID: Equatable, Sendable {
        let high: UInt64
        let low: UInt64
    }

    let traceID: TraceID
    /// The span of the caller; 0 when the trace begins here.
    let parent: UInt64
    /// `sampled` and `random`, and no other one.
    let flags: UInt8
    /// The value of `tracestate`; empty without one.
    var state: [UInt8] = []

    static let sampled: UInt8 = 1
    static let random: UInt8 = 2

    var isSampled: Bool { flags & Self.sampled != 0 }

    static let parentName: StaticString = "traceparent"
    static let stateName: StaticString = "tracestate"

    // MARK: Reading

    /// The context in the fields of a request; nil without a valid one.
    static func read(_ fields: borrowing HeaderFields) -> TraceContext? {
        var context: TraceContext?
        var state = TraceState()
        for index in 0..<fields.count where fields.id(at: index) == .other {
            let name = fields.name(at: index)
            if name.equalsIgnoringCase(parentName.bytes) {
                // Programs differ in which of two they take.
                guard context == nil, let parsed = TraceContext(fields.value(at: index)) else { return nil }
                context = parsed
            } else if name.equalsIgnoringCase(stateName.bytes) {
                state.append(fields.value(at: index))
            }
        }
        context?.state = state.value
        return context
    }

    init(traceID: TraceID, parent: UInt64, flags: UInt8) {
        self.traceID = traceID
        self.parent = parent
        self.flags = flags
    }

    /// Reads the value of `traceparent` (section 3.2 of the recommendation). A later version is read as this one, whose members it begins
    /// with.
    init?(_ value: borrowing Span<UInt8>) {
        guard value.count >= Self.length,
            value[2] == Self.hyphen, value[35] == Self.hyphen, value[52] == Self.hyphen,
            let version = Self.number(value.extracting(0..<2)), version != 0xFF,
            let high = Self.number(value.extracting(3..<19)), let low = Self.number(value.extracting(19..<35)),
            let parent = Self.number(value.extracting(36..<52)), let flags = Self.number(value.extracting(53..<55)),
            high | low != 0, parent != 0
        else { return nil }
        if value.count > Self.length {
            guard version > 0, value[Self.length] == Self.hyphen else { return nil }
        }
        self.init(
            traceID: TraceID(high: high, low: low),
            parent: parent,
            flags: UInt8(flags) & (Self.sampled | Self.random)
        )
    }

    private static let length = 55
    private static let hyphen = UInt8(ascii: "-")

    /// The value of hexadecimal digits, which are in lower case.
    private static func number(_ digits: borrowing Span<UInt8>) -> UInt64? {
        var result: UInt64 = 0
        for index in 0..<digits.count {
            let digit = digits[index]
            guard digit < UInt8(ascii: "A") || digit > UInt8(ascii: "F"), let value = ASCII.hexadecimalValue(digit)
            else { return nil }
            result = result << 4 | UInt64(value)
        }
        return result
    }

    // MARK: Writing

    /// The value of `traceparent` for a request whose span is `span`.
    func value(span: UInt64) -> [UInt8] {
        var text = Array("00-".utf8)
        text.reserveCapacity(Self.length)
        text.append(traceID)
        text.append(Self.hyphen)
        text.append(hexadecimal: span)
        text.append(Self.hyphen)
        text.append(UInt8(ascii: "0"))
        text.append(UInt8(ascii: "0") + flags)
        return text
    }
}

extension [UInt8] {
    mutating func append(_ identifier: TraceContext.TraceID) {
        append(hexadecimal: identifier.high)
        append(hexadecimal: identifier.low)
    }

    /// Appends 16 digits in lower case.
    mutating func append(hexadecimal value: UInt64) {
        for shift in stride(from: UInt64(60), through: 0, by: -4) {
            let digit = UInt8(truncatingIfNeeded: value >> shift) & 15
            append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
        }
    }
}
