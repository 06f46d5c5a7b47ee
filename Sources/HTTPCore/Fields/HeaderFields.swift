// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// The fields of a head or a trailer section, in order, in one byte array (RFC 9110 5).
///
/// The bytes have the form of the wire (`Name: value` and CRLF for each field), so that serialisation is a copy, and
/// the memory is reused for the next head. Names keep their case, and are compared case-insensitively. A value cannot
/// contain CR, LF, NUL or another control character: the `String` methods throw, and the parsers refuse it.
public struct HeaderFields: Sendable {
    var storage = ReusableBytes()
    @usableFromInline var entries = ReusableEntries()
    /// The names that may be present. A name stays in the set after its removal, so that only absence is certain.
    @usableFromInline private(set) var names = FieldNameSet()
    /// Whether `storage` holds exactly the entries, in order.
    private(set) var isContiguous = true

    public init() {}

    /// The number of field lines.
    public var count: Int { entries.count }

    public var isEmpty: Bool { entries.isEmpty }

    /// Removes every field; with `keepingCapacity` the memory serves the next head.
    public mutating func removeAll(keepingCapacity: Bool = false) {
        storage.removeAll(keepingCapacity: keepingCapacity)
        entries.removeAll(keepingCapacity: keepingCapacity)
        names = FieldNameSet()
        isContiguous = true
    }

    // MARK: - Reading

    @inlinable
    @inline(__always)
    package func id(at index: Int) -> FieldName { entries[index].id }

    @inlinable
    @inline(__always)
    package func nameLength(at index: Int) -> Int { Int(entries[index].nameLength) }

    @_lifetime(borrow self)
    package func name(at index: Int) -> Span<UInt8> {
        storage.bytes(entries[index].name)
    }

    @_lifetime(borrow self)
    package func value(at index: Int) -> Span<UInt8> {
        storage.bytes(entries[index].value)
    }

    /// The field line `Name: value`, without CRLF.
    @_lifetime(borrow self)
    package func line(at index: Int) -> Span<UInt8> {
        let line = entries[index].line
        return storage.bytes(line.lowerBound..<line.upperBound - 2)
    }

    /// The lines as they are stored, also those of removed fields: what is not in here is in no field.
    package var storedBytes: Span<UInt8> {
        @_lifetime(borrow self) get { storage.bytes(0..<storage.count) }
    }

    package func appendValue(at index: Int, to bytes: inout [UInt8]) {
        bytes.append(value(at: index))
    }

    /// The first field of that name. An absent name costs no search.
    package func first(_ id: FieldName) -> Int? {
        guard names.contains(id) else { return nil }
        return entries.firstIndex { $0.id == id }
    }

    /// The next field of that name after `index`.
    package func next(_ id: FieldName, after index: Int) -> Int? {
        var index = index + 1
        while index < entries.count {
            if entries[index].id == id { return index }
            index += 1
        }
        return nil
    }

    /// The first field of a name without a `FieldName`, ignoring case.
    package func first(named name: borrowing Span<UInt8>) -> Int? {
        let id = FieldName(name)
        if id != .other { return first(id) }
        for index in entries.indices where entries[index].id == .other {
            if storage.bytes(entries[index].name).equalsIgnoringCase(name) { return index }
        }
        return nil
    }

    package func contains(_ id: FieldName) -> Bool { first(id) != nil }

    /// Whether there may be a field of one of these names. The look at a word spares most callers a call, and a copy of fields that
    /// a class holds.
    @inlinable
    @inline(__always)
    package func mayContain(anyOf set: FieldNameSet) -> Bool { names.intersects(set) }

    package func count(of id: FieldName) -> Int {
        guard names.contains(id) else { return 0 }
        var count = 0
        for index in entries.indices where entries[index].id == id { count += 1 }
        return count
    }

    /// Whether some field has one of these names.
    package func containsAny(of set: FieldNameSet) -> Bool {
        guard names.intersects(set) else { return false }
        return entries.contains { set.contains($0.id) }
    }

    // MARK: - Writing

    /// Appends a name and a value that are known to be valid: from a parser, or from another `HeaderFields`. Invalid ones
    /// stop the program; check others with `isValidName` and `isValidValue` before. White space at a value's ends is left out.
    package mutating func append(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) {
        append(id: FieldName(name), name: name, value: value)
    }

    package mutating func append(_ id: FieldName, _ value: StaticString) {
        append(id: id, name: id.text.bytes, value: value.bytes)
    }

    package mutating func append(_ id: FieldName, _ value: borrowing Span<UInt8>) {
        append(id: id, name: id.text.bytes, value: value)
    }

    package mutating func append(_ id: FieldName, decimal value: Int) {
        append(id, Array(String(value).utf8).span)
    }

    /// Copies the field at `index` of `other` to the end.
    package mutating func append(contentsOf other: borrowing HeaderFields, at index: Int) {
        // A valid field stays valid in another list.
        let entry = other.entries[index]
        let start = storage.count
        storage.append(other.storage.bytes(entry.line))
        record(
            start: start,
            nameLength: Int(entry.nameLength),
            valueLength: Int(entry.valueLength),
            entry.id
        )
    }

    /// Appends the field if it is the next one of `former`, too, byte for byte. Where that list took well-formed fields alone, so is this
    /// one, and nothing looks at it again.
    @inline(__always)
    mutating func append(
        ifNextOf former: borrowing HeaderFields,
        name: borrowing Span<UInt8>,
        value: borrowing Span<UInt8>
    ) -> Bool {
        let index = entries.count
        guard index < former.entries.count else { return false }
        let entry = former.entries[index]
        guard former.storage.bytes(entry.name).equals(name), former.storage.bytes(entry.value).equals(value) else {
            return false
        }
        append(contentsOf: former, at: index)
        return true
    }

    /// The last defence against header injection, for every append but the next one. White space at the ends, which is no part of a
    /// value and may be left of what a peer has sent, is left out: it is no reason to stop the program.
    mutating func append(id: FieldName, name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) {
        // A known name is a token.
        precondition(id != .other || Self.isValidName(name), "a field name is a token")
        let value = value.extracting(value.trimmingBlanks(0..<value.count))
        precondition(Self.isValidValue(value), "a field value holds no control character")
        append(wellFormed: id, name: name, value: value)
    }

    /// For the sections of HTTP/2, which have just found these very bytes well-formed (`SectionField.isWellFormed`): nothing looks at them
    /// again. No other caller may use it.
    @inline(__always)
    mutating func append(wellFormed id: FieldName, name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) {
        let start = storage.count
        storage.appendLine(name: name, value: value)
        record(start: start, nameLength: name.count, valueLength: value.count, id)
    }

    /// For the parser, which has validated every byte of `line` (a field line with CRLF) and knows the ranges.
    @inline(__always)
    mutating func append(
        parsed line: borrowing Span<UInt8>,
        nameLength: Int,
        value: Range<Int>,
        _ id: FieldName
    ) {
        let start = storage.count
        if value.lowerBound == nameLength &+ 2, value.upperBound &+ 2 == line.count,
            line[nameLength &+ 1] == ASCII.space
        {
            storage.append(line)
        } else {
            storage.append(line.extracting(0..<nameLength))
            storage.append(ASCII.colon)
            storage.append(ASCII.space)
            storage.append(line.extracting(value))
            storage.append(ASCII.carriageReturn)
            storage.append(ASCII.lineFeed)
        }
        record(start: start, nameLength: nameLength, valueLength: value.count, id)
    }

    /// Appends a continuation line to the value of the field that was appended last, behind one space (RFC 9112 5.2).
    ///
    /// - Parameter bytes: not empty, without control characters, and without white space at the ends.
    mutating func continueLastField(with bytes: borrowing Span<UInt8>) {
        precondition(Self.isValidValue(bytes) && !bytes.isEmpty, "a continuation is a field value")
        precondition(entries[entries.count - 1].line.upperBound == storage.count, "the last field is the last line")
        // Its CRLF makes room; a value that began empty takes no space at its start.
        storage.removeLast(2)
        let isEmpty = entries[entries.count - 1].valueLength == 0
        if !isEmpty { storage.append(ASCII.space) }
        storage.append(bytes)
        storage.append(ASCII.carriageReturn)
        storage.append(ASCII.lineFeed)
        entries[entries.count - 1].valueLength += UInt32(bytes.count) + (isEmpty ? 0 : 1)
    }

    /// Appends the field lines from `start` of `bytes` on that have the usual form: a name, a colon and a space, a value without
    /// TAB and without white space at its ends, CRLF. Their bytes are copied at once.
    ///
    /// It stops before any other line, which `FieldLine` accepts or refuses: so this decides nothing about what is valid.
    ///
    /// - Parameters:
    ///   - limit: the number of fields that there may be then.
    ///   - last: no line that ends behind this index is appended.
    /// - Returns: where the first line begins that was not appended.
    mutating func appendUsualLines(
        of bytes: borrowing Span<UInt8>,
        from start: Int,
        fieldLimit limit: Int,
        endingBy last: Int
    ) -> Int {
        // So that no sum below overflows 32 bits.
        guard bytes.count < Self.mostBytes, storage.count < Self.mostBytes else { return start }
        let known = FieldNameTable.shared
        let offset = UInt32(truncatingIfNeeded: storage.count &- start)
        var found = names
        var position = start
        var count = entries.count
        var room = entries.room(forMore: Self.linesAtOnce)
        let most = Swift.min(limit, room.count)
        while position < bytes.count, count < most, ASCII.isToken(bytes[position]) {
            guard let colon = bytes.firstIndex(of: ASCII.colon, from: position) else { break }
            let valueStart = colon &+ 2
            guard valueStart < bytes.count, bytes[colon &+ 1] == ASCII.space, !ASCII.isBlank(bytes[valueStart]),
                let valueEnd = bytes.firstIndexOfControl(from: valueStart), valueEnd > valueStart
            else { break }
            let end = valueEnd &+ 2
            guard end <= bytes.count, end <= last, bytes[valueEnd] == ASCII.carriageReturn,
                bytes[valueEnd &+ 1] == ASCII.lineFeed, bytes[valueEnd &- 1] != ASCII.space
            else { break }
            let id = known.find(bytes, position..<colon)
            if id == .other, !Self.isToken(bytes, position..<colon) { break }
            if id == .underscoredContentLength || id == .underscoredTransferEncoding { break }
            room[count] = FieldEntry(
                start: offset &+ UInt32(truncatingIfNeeded: position),
                nameLength: UInt32(truncatingIfNeeded: colon &- position),
                valueLength: UInt32(truncatingIfNeeded: valueEnd &- valueStart),
                id: id
            )
            count &+= 1
            found.insert(id)
            position = end
        }
        entries.use(count)
        names = found
        return finishLines(of: bytes, start..<position)
    }

    private static let mostBytes = 1 << 31
    /// What follows more lines than these is parsed line by line, and then so many again.
    private static let linesAtOnce = 16

    @inline(__always)
    private mutating func finishLines(of bytes: borrowing Span<UInt8>, _ lines: Range<Int>) -> Int {
        if !lines.isEmpty { storage.append(bytes.extracting(lines)) }
        return lines.upperBound
    }

    /// The memory of the fields, in bytes.
    package var footprint: Int {
        storage.footprint + (entries.isEmpty ? 0 : entries.capacity * MemoryLayout<FieldEntry>.stride + 32)
    }

    /// Makes room for `count` fields of together `bytes` bytes.
    package mutating func reserveCapacity(count: Int, bytes: Int) {
        storage.reserve(bytes)
        entries.reserveCapacity(count)
    }

    @inline(__always)
    mutating func record(start: Int, nameLength: Int, valueLength: Int, _ id: FieldName) {
        entries.append(
            FieldEntry(
                start: UInt32(start),
                nameLength: UInt32(nameLength),
                valueLength: UInt32(valueLength),
                id: id
            )
        )
        names.insert(id)
    }

    package mutating func remove(at index: Int) {
        entries.remove(at: index)
        isContiguous = false
    }

    /// Removes every field of that name.
    package mutating func remove(_ id: FieldName) {
        guard names.contains(id) else { return }
        let before = entries.count
        entries.removeAll { $0.id == id }
        if entries.count != before { isContiguous = false }
        if id != .other { names.remove(id) }
    }

    /// Removes the fields for which `shouldRemove` returns true.
    package mutating func removeAll(where shouldRemove: (_ fields: borrowing HeaderFields, _ index: Int) -> Bool) {
        var kept = ReusableEntries()
        kept.reserveCapacity(entries.count)
        for index in entries.indices where !shouldRemove(self, index) { kept.append(entries[index]) }
        guard kept.count != entries.count else { return }
        entries = kept
        isContiguous = false
    }

    /// Replaces the first field of that name and removes the others, or appends one at the end.
    package mutating func set(_ id: FieldName, _ value: borrowing Span<UInt8>) {
        precondition(id != .other, "only a name can be set")
        guard let found = first(id) else { return append(id, value) }
        append(id, value)
        let fresh = entries.removeLast()
        entries[found] = fresh
        var index = entries.count - 1
        while index > found {
            if entries[index].id == id { entries.remove(at: index) }
            index -= 1
        }
        isContiguous = false
    }

    package mutating func set(_ id: FieldName, _ value: StaticString) { set(id, value.bytes) }

    /// Writes `Name: value` and CRLF for each field.
    package func serialize(into buffer: inout ByteBuffer) {
        if isContiguous {
            buffer.append(storage.bytes(0..<storage.count))
        } else {
            for index in entries.indices { serializeField(at: index, into: &buffer) }
        }
    }

    /// Writes the field at `index`, with its CRLF.
    @inline(__always)
    package func serializeField(at index: Int, into buffer: inout ByteBuffer) {
        buffer.append(storage.bytes(entries[index].line))
    }

    // MARK: - What is valid

    /// A token (RFC 9110 5.6.2).
    package static func isValidName(_ name: borrowing Span<UInt8>) -> Bool { isToken(name, 0..<name.count) }

    /// Whether the bytes of `range` are a token.
    @inline(__always)
    static func isToken(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> Bool {
        guard !range.isEmpty else { return false }
        var index = range.lowerBound
        while index < range.upperBound {
            if !ASCII.isToken(bytes[index]) { return false }
            index &+= 1
        }
        return true
    }

    /// No control characters but HTAB, and no white space at the ends (RFC 9110 5.5).
    package static func isValidValue(_ value: borrowing Span<UInt8>) -> Bool {
        guard value.firstIndexOutsideFieldValue(in: 0..<value.count) == nil else { return false }
        guard value.count > 0 else { return true }
        return !ASCII.isBlank(value[0]) && !ASCII.isBlank(value[value.count - 1])
    }
}
