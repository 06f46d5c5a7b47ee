// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Finds out from the first bytes of a client what it speaks, where it has not asked for a proxy: TLS, with the whole hello, or HTTP.
///
/// A value: bytes go in, in any pieces, and an outcome comes out.
package struct FirstBytes: Sendable {
    package enum Outcome: Equatable, Sendable {
        case needMore
        /// A method and a space: HTTP/1.1, or the preface of HTTP/2.
        case http
        case tls(ClientHello)
        /// It begins as TLS, and cannot be understood.
        case brokenTLS(ClientHelloFault)
        case neither
    }

    /// The largest hello, in bytes on the wire. Those of browsers with keys of ML-KEM have some 2 KB.
    package static let helloLimit = 16 << 10
    /// No method is longer.
    private static let methodLimit = 32
    /// Empty lines before a request (RFC 9112, section 2.2), in bytes.
    private static let emptyLimit = 4

    private enum State {
        case beginning(emptyBytes: Int)
        case method(count: Int)
        case hello
        case decided(Outcome)
    }

    private var state = State.beginning(emptyBytes: 0)
    private var reader = ClientHelloReader(limit: helloLimit)

    package init() {}

    /// Whether a hello has begun.
    package var isTLS: Bool {
        if case .hello = state { true } else { false }
    }

    /// The bytes of a hello that are kept until it is whole.
    var heldBytes: Int { reader.heldBytes }

    /// Processes the next bytes. After the first outcome other than `needMore`, the outcome stays the same.
    package mutating func consume(_ bytes: borrowing Span<UInt8>) -> Outcome {
        var position = 0
        while position < bytes.count {
            switch state {
            case .decided(let outcome): return outcome
            case .beginning(let count): state = Self.begin(bytes[position], behind: count)
            case .method(let count): state = Self.proceed(bytes[position], count)
            case .hello:
                let outcome = Self.outcome(of: reader.consume(bytes.extracting(position..<bytes.count)))
                if outcome != .needMore { state = .decided(outcome) }
                return outcome
            }
            // The reader gets the first byte, too.
            if !isTLS { position += 1 }
        }
        if case .decided(let outcome) = state { return outcome }
        return .needMore
    }

    private static func outcome(of hello: ClientHelloReader.Outcome) -> Outcome {
        switch hello {
        case .needMore: .needMore
        case .complete(let hello): .tls(hello)
        case .failed(.notTLS): .neither
        case .failed(let fault): .brokenTLS(fault)
        }
    }

    private static func begin(_ byte: UInt8, behind emptyBytes: Int) -> State {
        switch byte {
        case 22 where emptyBytes == 0: .hello
        case UInt8(ascii: "\r"), UInt8(ascii: "\n"):
            emptyBytes < emptyLimit ? .beginning(emptyBytes: emptyBytes + 1) : .decided(.neither)
        default: isOfMethod(byte) ? .method(count: 1) : .decided(.neither)
        }
    }

    private static func proceed(_ byte: UInt8, _ count: Int) -> State {
        if byte == UInt8(ascii: " ") { return .decided(.http) }
        return isOfMethod(byte) && count < methodLimit ? .method(count: count + 1) : .decided(.neither)
    }

    /// Methods are tokens (RFC 9110, section 9.1); those that are in use have letters, digits and these.
    private static func isOfMethod(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
