// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// The bytes of a secret in memory of their own, which is overwritten before it is freed.
///
/// Whoever copies them is responsible for the copy. `@unchecked Sendable`: the memory does not change between `init` and `deinit`.
package final class SecretBytes: @unchecked Sendable {
    private let start: UnsafeMutablePointer<UInt8>
    package let count: Int

    package init(_ bytes: borrowing Span<UInt8>) {
        count = bytes.count
        start = .allocate(capacity: max(bytes.count, 1))
        bytes.withUnsafeBufferPointer { source in
            if let base = source.baseAddress { start.initialize(from: base, count: source.count) }
        }
    }

    package convenience init(_ bytes: [UInt8]) { self.init(bytes.span) }

    deinit {
        OPENSSL_cleanse(start, count)
        start.deallocate()
    }

    package var bytes: Span<UInt8> {
        @_lifetime(borrow self) get {
            let span = Span<UInt8>(_unsafeStart: start, count: count)
            return unsafe _overrideLifetime(span, borrowing: self)
        }
    }

    /// Whether both hold the same bytes, in a time that depends only on their lengths.
    package func equals(_ other: SecretBytes) -> Bool {
        count == other.count && CRYPTO_memcmp(start, other.start, count) == 0
    }
}

extension SecretBytes: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Shows nothing of the bytes, not even their number.
    package var description: String { "(secret)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}

extension [UInt8] {
    /// Overwrites a copy of a secret before its memory is freed. Where the array shares its memory with others, the others keep
    /// theirs.
    package mutating func wipe() {
        withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) }
        self = []
    }
}
