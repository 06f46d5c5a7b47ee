// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// `tracestate` of a request: what other tracing systems pass on, which is not understood here (section 3.3 of W3C Trace Context).
/// Several fields are one list.
///
/// The list comes from outside and is sent on: one that is not valid, names a system twice, or is too long, is dropped whole.
struct TraceState {
    /// Bytes; every implementation passes on so many.
    static let mostBytes = 512
    static let mostMembers = 32

    private var text: [UInt8] = []
    private var keys: [Range<Int>] = []
    private var isValid = true

    /// The list in its one form; empty without a valid one.
    var value: [UInt8] { isValid ? text : [] }

    /// Adds the members of a field.
    mutating func append(_ field: borrowing Span<UInt8>) {
        var start = 0
        while isValid, start <= field.count {
            var end = start
            while end < field.count, field[end] != UInt8(ascii: ",") { end += 1 }
            var member = start..<end
            while let first = member.first, Self.isBlank(field[first]) { member.removeFirst() }
            while let last = member.last, Self.isBlank(field[last]) { member.removeLast() }
            // Empty members are allowed, and mean nothing.
            if !member.isEmpty { add(field.extracting(member)) }
            start = end + 1
        }
    }

    private mutating func add(_ member: borrowing Span<UInt8>) {
        isValid = false
        guard let equals = member.firstIndex(of: UInt8(ascii: "=")),
            Self.isKey(member.extracting(0..<equals)), Self.isValue(member.extracting((equals + 1)..<member.count)),
            keys.count < Self.mostMembers, text.count + member.count + 1 <= Self.mostBytes + (text.isEmpty ? 1 : 0)
        else { return }
        for key in keys where text.span.extracting(key).equals(member.extracting(0..<equals)) { return }
        if !text.isEmpty { text.append(UInt8(ascii: ",")) }
        keys.append(text.count..<(text.count + equals))
        text.append(member)
        isValid = true
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }

    private static func isKey(_ key: borrowing Span<UInt8>) -> Bool {
        guard (1...256).contains(key.count) else { return false }
        for index in 0..<key.count {
            switch key[index] {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): continue
            case UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "*"), UInt8(ascii: "/"), UInt8(ascii: "@"):
                if index == 0 { return false }
            default: return false
            }
        }
        return true
    }

    /// Visible characters and spaces, without comma and equals sign.
    private static func isValue(_ value: borrowing Span<UInt8>) -> Bool {
        guard (1...256).contains(value.count) else { return false }
        for index in 0..<value.count {
            switch value[index] {
            case UInt8(ascii: ","), UInt8(ascii: "="): return false
            case 0x20...0x7E: continue
            default: return false
            }
        }
        return true
    }
}
