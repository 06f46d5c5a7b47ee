// SPDX-License-Identifier: Apache-2.0
/// Where a field is in the bytes of its list.
@usableFromInline
struct FieldEntry: Sendable {
    /// The start of the name; the value begins two bytes after the end of the name.
    @usableFromInline let start: UInt32
    @usableFromInline let nameLength: UInt32
    @usableFromInline var valueLength: UInt32
    @usableFromInline let id: FieldName

    init(start: UInt32, nameLength: UInt32, valueLength: UInt32, id: FieldName) {
        self.start = start
        self.nameLength = nameLength
        self.valueLength = valueLength
        self.id = id
    }

    @inlinable
    @inline(__always)
    var name: Range<Int> { Int(start)..<Int(start &+ nameLength) }

    @inlinable
    @inline(__always)
    var value: Range<Int> {
        Int(start &+ nameLength &+ 2)..<Int(start &+ nameLength &+ 2 &+ valueLength)
    }

    /// The length including CRLF.
    @inlinable
    @inline(__always)
    var line: Range<Int> {
        Int(start)..<Int(start &+ nameLength &+ valueLength &+ 4)
    }
}

/// The entries of fields, in an array whose memory serves again and again: `removeAll` is one store, as in `ReusableBytes`.
@usableFromInline
struct ReusableEntries: Sendable {
    /// Of which the first `count` are there.
    @usableFromInline private(set) var memory: [FieldEntry] = []
    @usableFromInline private(set) var count = 0

    var isEmpty: Bool { count == 0 }
    var indices: Range<Int> { 0..<count }
    var capacity: Int { memory.capacity }

    @usableFromInline
    subscript(index: Int) -> FieldEntry {
        @inlinable @inline(__always) get {
            precondition(index < count, "an entry behind the end")
            return memory[index]
        }
        set {
            precondition(index < count, "an entry behind the end")
            memory[index] = newValue
        }
    }

    @inline(__always)
    mutating func append(_ entry: FieldEntry) {
        if count < memory.count { memory[count] = entry } else { memory.append(entry) }
        count &+= 1
    }

    /// The memory of the entries, with room behind them; `use` follows with the number that is there then.
    @_lifetime(&self)
    mutating func room(forMore more: Int) -> MutableSpan<FieldEntry> {
        let missing = count &+ more &- memory.count
        if missing > 0 { memory.append(contentsOf: repeatElement(Self.none, count: missing)) }
        return memory.mutableSpan
    }

    mutating func use(_ count: Int) {
        precondition(count <= memory.count, "entries behind the memory")
        self.count = count
    }

    private static let none = FieldEntry(start: 0, nameLength: 0, valueLength: 0, id: .other)

    mutating func reserveCapacity(_ capacity: Int) { memory.reserveCapacity(capacity) }

    mutating func removeAll(keepingCapacity: Bool) {
        count = 0
        if !keepingCapacity { memory = [] }
    }

    mutating func remove(at index: Int) {
        precondition(index < count, "an entry behind the end")
        memory.remove(at: index)
        count -= 1
    }

    mutating func removeLast() -> FieldEntry {
        precondition(count > 0, "no entry")
        count -= 1
        return memory[count]
    }

    mutating func removeAll(where shouldRemove: (FieldEntry) -> Bool) {
        memory.removeLast(memory.count - count)
        memory.removeAll(where: shouldRemove)
        count = memory.count
    }

    @inline(__always)
    func firstIndex(where fits: (FieldEntry) -> Bool) -> Int? {
        var index = 0
        while index < count {
            if fits(memory[index]) { return index }
            index &+= 1
        }
        return nil
    }

    @inline(__always)
    func contains(where fits: (FieldEntry) -> Bool) -> Bool { firstIndex(where: fits) != nil }
}
