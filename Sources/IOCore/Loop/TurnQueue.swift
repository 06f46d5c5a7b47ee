// SPDX-License-Identifier: Apache-2.0
/// Objects that wait for the end of a turn. Taking them costs no allocation: two arrays change places.
///
/// Public because the compiler specialises inlinable functions in other modules only if they are public.
public struct TurnQueue<Element: AnyObject> {
    /// The first of them, apart: usually it is the only one, and is put here and taken without an array.
    @usableFromInline var first: Element?
    @usableFromInline var waiting: [Element] = []
    @usableFromInline var spare: [Element] = []

    @inlinable public init() {}

    @inlinable public var isEmpty: Bool { first == nil }

    @inlinable public mutating func append(_ element: Element) {
        if first == nil { first = element } else { waiting.append(element) }
    }

    /// Takes the element that waits, if there is exactly one.
    @inlinable public mutating func takeOnly() -> Element? { waiting.isEmpty ? first.take() : nil }

    /// Takes everything that waits. The array comes back with `giveBack`.
    @inlinable public mutating func take() -> [Element] {
        guard let first = first.take() else { return [] }
        var taken: [Element] = []
        swap(&taken, &spare)
        taken.append(first)
        taken.append(contentsOf: waiting)
        while !waiting.isEmpty { waiting.removeLast() }
        return taken
    }

    /// Puts elements back for which the turn has no time: they come before those that were appended since.
    @inlinable public mutating func putBack(_ rest: ArraySlice<Element>) {
        guard let head = rest.first else { return }
        var order = Array(rest.dropFirst())
        if let first { order.append(first) }
        order.append(contentsOf: waiting)
        first = head
        waiting = order
    }

    /// Keeps the memory of a taken array for later.
    @inlinable public mutating func giveBack(_ taken: consuming [Element]) {
        guard taken.capacity > 0 else { return }
        // Much cheaper than removeAll for the one or two that there usually are.
        while !taken.isEmpty { taken.removeLast() }
        spare = taken
    }
}
