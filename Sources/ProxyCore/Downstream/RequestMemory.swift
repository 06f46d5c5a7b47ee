// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The memory of a request's fields and target, which serves the next request when the former one is gone: most requests
/// need no allocation for them. A request that still lives then keeps its memory, and the next one gets its own.
struct RequestMemory {
    private var fields = HeaderFields()
    private var target: [UInt8] = []

    /// More than this is given back, in bytes.
    private static let limit = 8 << 10

    /// Empty fields, perhaps with memory; `keep` follows when they are complete.
    mutating func takeFields() -> HeaderFields {
        var taken = HeaderFields()
        swap(&taken, &fields)
        taken.removeAll(keepingCapacity: true)
        return taken
    }

    /// Shares the memory of complete fields.
    mutating func keep(_ fields: consuming HeaderFields) {
        if fields.footprint <= Self.limit { self.fields = fields }
    }

    /// The target of a request.
    mutating func copyTarget(of head: borrowing RequestHead) -> [UInt8] { copy(head.target) }

    /// The bytes of a request target.
    mutating func copy(_ bytes: borrowing Span<UInt8>) -> [UInt8] {
        // A client that asks for the same again.
        if target.span.equals(bytes) { return target }
        guard bytes.count <= Self.limit else { return Array(copying: bytes) }
        target.removeAll(keepingCapacity: true)
        target.append(bytes)
        return target
    }
}
