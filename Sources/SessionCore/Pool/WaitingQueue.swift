/// Objects in the order in which they came; any of them may leave the queue early.
struct WaitingQueue<Element: AnyObject> {
    /// nil for an element that has left early.
    private var places: [Element?] = []
    /// The places before this one are behind.
    private var first = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    /// The longest waiting first.
    var elements: [Element] { places[first...].compactMap { $0 } }

    mutating func append(_ element: Element) {
        places.append(element)
        count += 1
    }

    mutating func popFirst() -> Element? {
        while first < places.count {
            let next = places[first]
            places[first] = nil
            first += 1
            tidy()
            guard let next else { continue }
            count -= 1
            return next
        }
        return nil
    }

    mutating func withdraw(_ element: Element) {
        guard let index = places[first...].firstIndex(where: { $0 === element }) else { return }
        places[index] = nil
        count -= 1
        if count == 0 {
            places.removeAll()
            first = 0
        }
    }

    /// Lets go of the part that is behind, when it is the larger one.
    private mutating func tidy() {
        if first == places.count {
            places.removeAll(keepingCapacity: places.count <= 64)
            first = 0
        } else if first > 64, first * 2 > places.count {
            places.removeFirst(first)
            first = 0
        }
    }
}
