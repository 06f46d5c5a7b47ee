/// Objects that wait for the end of a turn. Taking them costs no allocation: two arrays change places.
///
/// Public because the compiler specialises inlinable functions in other modules only if they are public.
public struct TurnQueue<Element: AnyObject> {
    @usableFromInline var waiting: [Element] = []
    @usableFromInline var spare: [Element] = []

    @inlinable public init() {}

    @inlinable public mutating func append(_ element: Element) { waiting.append(element) }

    /// Takes everything that waits. The array comes back with `giveBack`.
    @inlinable public mutating func take() -> [Element] {
        guard !waiting.isEmpty else { return [] }
        var taken: [Element] = []
        swap(&taken, &spare)
        swap(&taken, &waiting)
        return taken
    }

    /// Keeps the memory of a taken array for later.
    @inlinable public mutating func giveBack(_ taken: consuming [Element]) {
        guard taken.capacity > 0 else { return }
        // Much cheaper than removeAll for the one or two that there usually are.
        while !taken.isEmpty { taken.removeLast() }
        spare = taken
    }
}
