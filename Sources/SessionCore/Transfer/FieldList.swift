import CLibcurl
import CShims
import HTTPCore

/// The request line's target and the fields as libcurl wants them: C strings in one piece of memory, linked nodes in
/// another. Both are used again for the next request, so that a request allocates nothing here.
struct FieldList: ~Copyable {
    private var text: UnsafeMutablePointer<CChar>
    private var textCapacity: Int
    private var used = 0
    private var nodes: UnsafeMutablePointer<curl_slist>
    private var nodeCapacity: Int
    private var offsets: [Int] = []

    init() {
        textCapacity = 2048
        text = .allocate(capacity: textCapacity)
        nodeCapacity = 32
        nodes = .allocate(capacity: nodeCapacity)
    }

    deinit {
        text.deallocate()
        nodes.deallocate()
    }

    mutating func removeAll() {
        used = 0
        offsets.removeAll(keepingCapacity: true)
    }

    /// A C string of its own, not a field; valid until the next `add`.
    mutating func addText(_ bytes: borrowing Span<UInt8>) -> Int {
        let offset = used
        reserve(bytes.count + 1)
        copy(bytes)
        terminate()
        return offset
    }

    /// The method, as a C string.
    mutating func addMethod(_ method: HTTPMethod) -> Int {
        if case .other(let bytes) = method { return addText(bytes.span) }
        let text = method.knownText
        let offset = used
        reserve(text.utf8CodeUnitCount + 1)
        for index in 0..<text.utf8CodeUnitCount { put(text.utf8Start[index]) }
        terminate()
        return offset
    }

    func text(at offset: Int) -> UnsafePointer<CChar> { UnsafePointer(text + offset) }

    /// One field. An empty value needs libcurl's own spelling, a semicolon in the colon's place.
    mutating func add(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) {
        offsets.append(used)
        reserve(name.count + value.count + 3)
        copy(name)
        if value.isEmpty {
            put(UInt8(ascii: ";"))
        } else {
            put(UInt8(ascii: ":"))
            put(UInt8(ascii: " "))
            copy(value)
        }
        terminate()
    }

    /// A field of the session's own making.
    mutating func add(name: StaticString, value: StaticString) {
        offsets.append(used)
        reserve(name.utf8CodeUnitCount + value.utf8CodeUnitCount + 3)
        for index in 0..<name.utf8CodeUnitCount { put(name.utf8Start[index]) }
        put(UInt8(ascii: ":"))
        put(UInt8(ascii: " "))
        for index in 0..<value.utf8CodeUnitCount { put(value.utf8Start[index]) }
        terminate()
    }

    /// Keeps libcurl from adding a field of that name on its own account.
    mutating func suppress(_ name: StaticString) {
        offsets.append(used)
        reserve(name.utf8CodeUnitCount + 2)
        for index in 0..<name.utf8CodeUnitCount { put(name.utf8Start[index]) }
        put(UInt8(ascii: ":"))
        terminate()
    }

    /// The list, linked; nil when there is no field. Valid until the next change.
    mutating func link() -> UnsafeMutablePointer<curl_slist>? {
        let count = offsets.count
        guard count > 0 else { return nil }
        if count > nodeCapacity {
            nodes.deallocate()
            nodeCapacity = count * 2
            nodes = .allocate(capacity: nodeCapacity)
        }
        for index in 0..<count {
            let next = index + 1 < count ? nodes + index + 1 : nil
            (nodes + index).initialize(to: curl_slist(data: text + offsets[index], next: next))
        }
        return nodes
    }

    private mutating func reserve(_ count: Int) {
        guard used + count > textCapacity else { return }
        textCapacity = (used + count) * 2
        let larger = UnsafeMutablePointer<CChar>.allocate(capacity: textCapacity)
        larger.update(from: text, count: used)
        text.deallocate()
        text = larger
    }

    @inline(__always)
    private mutating func put(_ byte: UInt8) {
        text[used] = CChar(bitPattern: byte)
        used += 1
    }

    @inline(__always)
    private mutating func copy(_ bytes: borrowing Span<UInt8>) {
        let place = UnsafeMutableRawPointer(text + used)
        bytes.withUnsafeBufferPointer { source in
            if let base = source.baseAddress { place.copyMemory(from: base, byteCount: source.count) }
        }
        used += bytes.count
    }

    private mutating func terminate() { put(0) }
}
