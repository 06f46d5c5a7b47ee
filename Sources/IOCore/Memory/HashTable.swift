// SPDX-License-Identifier: Apache-2.0
/// An element of a `HashTable`, with its key inside.
public protocol HashTableElement: AnyObject {
    /// The hash of the key. It never changes, and its low bits are well mixed.
    var hash: UInt64 { get }
}

/// A hash table with open addressing, at most half full, so that a lookup takes one or two comparisons.
///
/// Callers compare the keys of the `candidates`: a lookup by bytes, or by a key of several parts, needs no allocation.
/// Public because the compiler specialises inlinable functions in other modules only if they are public.
public struct HashTable<Element: HashTableElement> {
    /// A power of two of them.
    @usableFromInline var slots: [Element?]
    @usableFromInline package internal(set) var count = 0

    /// - Parameter slots: a power of two; the table grows when half of them are used.
    package init(slots: Int = 64) { self.slots = Array(repeating: nil, count: slots) }

    /// The elements with that hash.
    @inlinable
    public func candidates(_ hash: UInt64) -> Candidates { Candidates(slots: slots, hash: hash) }

    /// The element with that hash for which `isWanted` holds.
    ///
    /// Without a copy of the slots, and with one retain for the element that is found.
    @inlinable
    public func first(_ hash: UInt64, where isWanted: (Element) -> Bool) -> Element? {
        let mask = slots.count &- 1
        var slot = Int(truncatingIfNeeded: hash) & mask
        while let element = slots[slot] {
            if element.hash == hash, isWanted(element) { return element }
            slot = (slot &+ 1) & mask
        }
        return nil
    }

    /// Every element, unordered.
    @inlinable
    public var all: [Element] { slots.compactMap { $0 } }

    /// Whether the next insertion makes the table grow.
    @inlinable
    public var isFull: Bool { count * 2 >= slots.count }

    /// Adds an element, even if there is one with the same key.
    @inlinable
    public mutating func insert(_ element: Element) {
        if isFull { rebuild { _ in true } }
        place(element)
        count += 1
    }

    /// Removes elements; at most a quarter of the slots is used then.
    @inlinable
    public mutating func rebuild(keeping isKept: (Element) -> Bool) {
        let kept = all.filter(isKept)
        var size = 64
        while kept.count * 4 > size { size *= 2 }
        slots = Array(repeating: nil, count: size)
        count = kept.count
        for element in kept { place(element) }
    }

    @inlinable
    mutating func place(_ element: Element) {
        var slot = home(element)
        while slots[slot] != nil { slot = after(slot) }
        slots[slot] = element
    }

    /// Removes an element, if it is in the table.
    @inlinable
    public mutating func remove(_ element: Element) {
        var free = home(element)
        while slots[free] !== element {
            guard slots[free] != nil else { return }
            free = after(free)
        }
        slots[free] = nil
        count -= 1
        // The elements behind it that it had displaced move up.
        var slot = after(free)
        while let other = slots[slot] {
            let home = home(other)
            let isBetween = free <= slot ? (free < home && home <= slot) : (free < home || home <= slot)
            if !isBetween {
                slots[free] = other
                slots[slot] = nil
                free = slot
            }
            slot = after(slot)
        }
    }

    @inlinable
    func home(_ element: Element) -> Int { Int(truncatingIfNeeded: element.hash) & (slots.count - 1) }

    @inlinable
    func after(_ slot: Int) -> Int { (slot + 1) & (slots.count - 1) }

    /// The elements with one hash.
    public struct Candidates: Sequence, IteratorProtocol {
        @usableFromInline let slots: [Element?]
        @usableFromInline let hash: UInt64
        @usableFromInline var slot: Int

        @inlinable
        init(slots: [Element?], hash: UInt64) {
            self.slots = slots
            self.hash = hash
            slot = Int(truncatingIfNeeded: hash) & (slots.count - 1)
        }

        @inlinable
        public mutating func next() -> Element? {
            while let element = slots[slot] {
                slot = (slot + 1) & (slots.count - 1)
                if element.hash == hash { return element }
            }
            return nil
        }
    }
}
