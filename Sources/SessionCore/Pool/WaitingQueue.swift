// SPDX-License-Identifier: Apache-2.0
/// Objects in the order in which they came; any of them may leave the queue early.
struct WaitingQueue<Element: AnyObject> {
    private struct Place {
        /// nil for an element that has left early.
        var element: Element?
        let number: Int
    }

    /// The first one holds an element, unless the queue is empty.
    private var places: [Place] = []
    /// The places before this one are behind.
    private var start = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    /// The element that has waited longest.
    var first: Element? { isEmpty ? nil : places[start].element }

    /// The number of the first element; the largest one without elements.
    var firstNumber: Int { isEmpty ? .max : places[start].number }

    /// The longest waiting first.
    var elements: [Element] { Array(lazyElements) }

    var lazyElements: some Sequence<Element> { places[start...].lazy.compactMap(\.element) }

    /// - Parameter number: larger than that of any element before.
    mutating func append(_ element: Element, number: Int) {
        places.append(Place(element: element, number: number))
        count += 1
    }

    mutating func popFirst() -> Element? {
        guard !isEmpty else { return nil }
        let first = places[start].element
        places[start].element = nil
        count -= 1
        tidy()
        return first
    }

    mutating func withdraw(_ element: Element) {
        guard let index = places[start...].firstIndex(where: { $0.element === element }) else { return }
        places[index].element = nil
        count -= 1
        tidy()
    }

    /// Lets go of the part that is behind, when it is the larger one.
    private mutating func tidy() {
        while start < places.count, places[start].element == nil { start += 1 }
        if start == places.count {
            places.removeAll(keepingCapacity: places.count <= 64)
            start = 0
        } else if start > 64, start * 2 > places.count {
            places.removeFirst(start)
            start = 0
        }
    }
}
