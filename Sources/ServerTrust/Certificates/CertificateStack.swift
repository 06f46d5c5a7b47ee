// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// A `STACK_OF(X509)` with references of its own: the form in which OpenSSL's functions take certificates.
///
/// - Note: `Sendable` because the stack is filled in the initialiser and only read from then on (`sk_num`, `sk_value`;
///   never `sk_find`, which sorts).
final class CertificateStack: @unchecked Sendable {
    let pointer: OpaquePointer

    init(_ certificates: [Certificate]) {
        guard let stack = OPENSSL_sk_new_null() else { fatalError("out of memory") }
        pointer = stack
        for certificate in certificates { push(certificate.pointer) }
    }

    /// A certificate, and at most `limit` others of a stack.
    init(leaf: OpaquePointer, others: OpaquePointer?, limit: Int) {
        guard let stack = OPENSSL_sk_new_null() else { fatalError("out of memory") }
        pointer = stack
        push(leaf)
        guard let others else { return }
        for index in 0..<min(OPENSSL_sk_num(others), Int32(clamping: limit)) {
            guard let other = OPENSSL_sk_value(others, index).map({ OpaquePointer($0) }),
                other != leaf, X509_cmp(other, leaf) != 0
            else { continue }
            push(other)
        }
    }

    private func push(_ certificate: OpaquePointer) {
        X509_up_ref(certificate)
        OPENSSL_sk_push(pointer, UnsafeRawPointer(certificate))
    }

    deinit {
        for index in 0..<OPENSSL_sk_num(pointer) {
            OPENSSL_sk_value(pointer, index).map { X509_free(OpaquePointer($0)) }
        }
        OPENSSL_sk_free(pointer)
    }

    /// The certificates of an OpenSSL stack, at most `limit` of them.
    ///
    /// - Parameter known: gives those that exist already.
    static func certificates(
        in stack: OpaquePointer?,
        limit: Int = .max,
        known: (OpaquePointer) -> Certificate? = { _ in nil }
    ) -> [Certificate] {
        guard let stack else { return [] }
        return (0..<min(OPENSSL_sk_num(stack), Int32(clamping: limit))).compactMap { index in
            guard let pointer = OPENSSL_sk_value(stack, index).map({ OpaquePointer($0) }) else { return nil }
            return known(pointer) ?? Certificate(retaining: pointer)
        }
    }
}
