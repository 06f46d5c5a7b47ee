// SPDX-License-Identifier: Apache-2.0
/// One field line of a head or a trailer section (RFC 9112 5), validated byte by byte.
enum FieldLine {
    enum Fault: Error {
        /// Leading white space: a folded line, or white space before the first field.
        case leadingBlank
        case noColon, blankBeforeColon
        /// The name is empty, or has a byte that is not allowed in a token.
        case name
        /// The value has a control character.
        case value
        /// A CR that does not end the line.
        case carriageReturn
        /// `Transfer_Encoding` or `Content_Length`.
        case underscoredFraming
    }

    /// Appends the field of `line` to `fields`. The caller guarantees that `line` is not empty and ends with CRLF.
    @inline(__always)
    static func parse(_ line: borrowing Span<UInt8>, into fields: inout HeaderFields) -> Result<FieldName, Fault> {
        guard let nameLength = line.firstIndex(of: ASCII.colon) else { return .failure(fault(ofName: line)) }
        let name = FieldNameTable.shared.find(line, 0..<nameLength)
        // A known name is a token.
        if name == .other, !HeaderFields.isToken(line, 0..<nameLength) { return .failure(fault(ofName: line)) }

        let value = line.trimmingBlanks(nameLength &+ 1..<line.count &- 2)
        if let index = line.firstIndexOutsideFieldValue(in: value) {
            return .failure(line[index] == ASCII.carriageReturn ? .carriageReturn : .value)
        }
        if name == .underscoredContentLength || name == .underscoredTransferEncoding {
            return .failure(.underscoredFraming)
        }
        fields.append(parsed: line, nameLength: nameLength, value: value, name)
        return .success(name)
    }

    @inline(never)
    private static func fault(ofName line: borrowing Span<UInt8>) -> Fault {
        var index = 0
        while ASCII.isToken(line[index]) { index &+= 1 }
        if index == 0, ASCII.isBlank(line[0]) { return .leadingBlank }
        if line[index] == ASCII.carriageReturn, index < line.count - 2 { return .carriageReturn }
        guard line.firstIndex(of: ASCII.colon, from: index) != nil else { return .noColon }
        var next = index
        while ASCII.isBlank(line[next]) { next += 1 }
        return next > index && line[next] == ASCII.colon ? .blankBeforeColon : .name
    }
}
