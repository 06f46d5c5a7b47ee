// SPDX-License-Identifier: Apache-2.0

/// A value that one thread at a time uses, behind a `PosixLock`.
///
/// It has the shape of `Synchronization.Mutex`, which is not used for the reason given in `PosixLock`.
///
/// `@unchecked Sendable`: only `withLock` reaches the value, and it holds the lock; what is put in or taken out is `sending`.
@usableFromInline
package final class Locked<Value>: @unchecked Sendable {
    @usableFromInline let lock = PosixLock()
    @usableFromInline var value: Value

    package init(_ value: sending Value) { self.value = value }

    @inlinable
    package func withLock<Result, Failure: Error>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }
}
