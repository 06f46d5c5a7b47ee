import CLibcurl
import CShims
import HTTPCore

/// A request's method, target and fields as libcurl wants them: C strings in one piece of memory, which is used again
/// for the next request, so that a request allocates nothing here.
///
/// All fields of the request are one entry of libcurl's list, their lines joined by CRLF: libcurl copies an entry as it
/// is, but looks each one over a dozen times. What it would add on its own account is suppressed by name.
struct FieldList: ~Copyable {
    private var text: UnsafeMutablePointer<CChar>
    private var textCapacity: Int
    private var used = 0
    private let nodes: UnsafeMutablePointer<curl_slist>
    private static let nodeCapacity = 4
    /// Where the entries begin; negative for one that is not there.
    private var lines = -1
    private var suppressed: (Int, Int) = (-1, -1)

    init() {
        textCapacity = 2048
        text = .allocate(capacity: textCapacity)
        nodes = .allocate(capacity: Self.nodeCapacity)
    }

    deinit {
        text.deallocate()
        nodes.deallocate()
    }

    mutating func removeAll() {
        used = 0
        lines = -1
        suppressed = (-1, -1)
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
        let offset = used
        add(method.knownText)
        terminate()
        return offset
    }

    func text(at offset: Int) -> UnsafePointer<CChar> { UnsafePointer(text + offset) }

    /// The fields, as one entry; once a request. An entry of nothing but a name needs libcurl's own spelling, a
    /// semicolon in the colon's place.
    mutating func addLines(_ fields: borrowing HTTPFields, hasZeroLength: Bool) {
        guard fields.count > 0 || hasZeroLength else { return }
        lines = used
        if fields.count == 1, !hasZeroLength, fields.value(at: 0).isEmpty {
            let name = fields.name(at: 0)
            reserve(name.count + 2)
            copy(name)
            put(UInt8(ascii: ";"))
        } else {
            for index in 0..<fields.count {
                let line = fields.line(at: index)
                reserve(line.count + 3)
                copy(line)
                put(UInt8(ascii: "\r"))
                put(UInt8(ascii: "\n"))
            }
            if hasZeroLength { add("Content-Length: 0") } else { used -= 2 }
        }
        terminate()
    }

    /// Keeps libcurl from adding a field of that name (written with its colon) on its own account.
    mutating func suppress(_ name: StaticString) {
        if suppressed.0 < 0 { suppressed.0 = used } else { suppressed.1 = used }
        add(name)
        terminate()
    }

    private mutating func add(_ text: StaticString) {
        reserve(text.utf8CodeUnitCount + 1)
        let place = UnsafeMutableRawPointer(self.text + used)
        place.copyMemory(from: text.utf8Start, byteCount: text.utf8CodeUnitCount)
        used += text.utf8CodeUnitCount
    }

    /// The list, linked; nil when there is nothing to say. Valid until the next change.
    mutating func link() -> UnsafeMutablePointer<curl_slist>? {
        var head: UnsafeMutablePointer<curl_slist>?
        var free = nodes
        func prepend(_ offset: Int) {
            guard offset >= 0 else { return }
            free.initialize(to: curl_slist(data: text + offset, next: head))
            head = free
            free += 1
        }
        // The lines last: libcurl looks for a field in the beginnings of entries, and has ideas of its own about some.
        prepend(lines)
        prepend(suppressed.1)
        prepend(suppressed.0)
        return head
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
