// SPDX-License-Identifier: Apache-2.0
import IOCore

/// A field line of a response that RFC 9112 does not allow, and in which every reader sees the same field, or none.
///
/// Servers have sent such lines for decades, and browsers read them. What they become here is regular, because each message
/// is written anew. Nothing of it holds for the fields that say where a message ends: a blank or a control character in
/// them is how one reader is made to see a length that another does not.
enum IrregularFieldLine {
    enum Meaning {
        /// The same field as RFC 9112 would write it, with CRLF.
        case field([UInt8])
        /// This part of the line continues the value of the line before (RFC 9112, section 5.2).
        case continuation(Range<Int>)
        /// No field: a name that cannot be sent on, which browsers leave out.
        case nothing
        case refused(FieldLine.Fault)
    }

    /// Fields about framing and connection.
    static let strictNames: FieldNameSet = [
        .contentLength, .transferEncoding, .connection, .keepAlive, .proxyConnection, .upgrade, .te, .trailer,
    ]

    /// - Parameters:
    ///   - line: without its line end, and not empty.
    ///   - fault: what `FieldLine` has found.
    static func meaning(of line: borrowing Span<UInt8>, _ fault: FieldLine.Fault) -> Meaning {
        switch fault {
        case .noColon, .carriageReturn:
            return .refused(fault)
        case .leadingBlank:
            let range = line.trimmingBlanks(0..<line.count)
            // An empty line for some readers.
            guard !range.isEmpty else { return .refused(.leadingBlank) }
            guard let index = line.firstIndexOutsideFieldValue(in: range) else { return .continuation(range) }
            return .refused(line[index] == ASCII.carriageReturn ? .carriageReturn : .value)
        case .underscoredFraming:
            return .nothing
        case .blankBeforeColon:
            return withoutBlanksBeforeColon(line)
        case .name:
            return mayBeLeftOut(line) ? .nothing : .refused(.name)
        case .value:
            return withoutControls(line)
        }
    }

    private static func withoutBlanksBeforeColon(_ line: borrowing Span<UInt8>) -> Meaning {
        guard let colon = line.firstIndex(of: ASCII.colon) else { return .refused(.noColon) }
        let name = line.trimmingBlanks(0..<colon)
        guard !strictNames.contains(FieldName(line.extracting(name))) else { return .refused(.blankBeforeColon) }
        var regular: [UInt8] = []
        regular.append(line.extracting(name))
        regular.append(line.extracting(colon..<line.count))
        return .field(regular + [ASCII.carriageReturn, ASCII.lineFeed])
    }

    /// Whether a line whose name is no token can be left out: it is text on one line, and its name does not look like one
    /// about framing or connection to a reader who skips some characters.
    private static func mayBeLeftOut(_ line: borrowing Span<UInt8>) -> Bool {
        guard let colon = line.firstIndex(of: ASCII.colon),
            line.firstIndexOutsideFieldValue(in: 0..<line.count) == nil
        else { return false }
        var letters: [UInt8] = []
        for index in 0..<colon where ASCII.isLetter(line[index]) { letters.append(ASCII.lowercased(line[index])) }
        for name: StaticString in ["contentlength", "transferencoding", "connection"] where letters.span.equals(name) {
            return false
        }
        return true
    }

    /// A value with spaces for its control characters (RFC 9110, section 5.5). NUL ends a value for some readers.
    private static func withoutControls(_ line: borrowing Span<UInt8>) -> Meaning {
        guard let colon = line.firstIndex(of: ASCII.colon),
            !strictNames.contains(FieldName(line.extracting(0..<colon)))
        else { return .refused(.value) }
        var regular: [UInt8] = []
        regular.append(line)
        for index in (colon + 1)..<regular.count where !ASCII.isFieldValue(regular[index]) {
            switch regular[index] {
            case 0: return .refused(.value)
            case ASCII.carriageReturn: return .refused(.carriageReturn)
            default: regular[index] = ASCII.space
            }
        }
        return .field(regular + [ASCII.carriageReturn, ASCII.lineFeed])
    }
}
