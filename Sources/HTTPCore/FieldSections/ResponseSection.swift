// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The head of a response of HTTP/2, field by field (RFC 9113, section 8.3.2).
///
/// A value: fields are appended, and the result is a `ResponseHead`, under the same rules as in HTTP/1.1's parser.
package struct ResponseSection: Sendable {
    private let limits: HeadLimits
    private var size = 0
    private var status: Int?
    private var seesFields = false
    private var isBegun = false
    /// Why the response will be refused; nothing of it is used any more.
    package private(set) var fault: ResponseFault?

    package init(limits: HeadLimits = HeadLimits()) { self.limits = limits }

    /// Appends a field. White space at the ends of its value is left out, as in HTTP/1.1; RFC 9113, section 8.2.1, calls it
    /// malformed, but servers send it, and nobody takes it for a part of the value.
    ///
    /// - Parameter former: the fields of the head before it, each of which was found well-formed here: a server sends most
    ///   of them again, in the same order.
    /// - Returns: false when the response is malformed; `fault` says why.
    package mutating func append(
        name: borrowing Span<UInt8>,
        value: borrowing Span<UInt8>,
        into head: inout ResponseHead,
        behind former: inout HeaderFields
    ) -> Bool {
        if !isBegun {
            isBegun = true
            head.exchangeFields(with: &former)
            head.removeAll()
        }
        size += SectionField.size(name: name, value: value)
        if size > limits.headBytes { fault = fault ?? .headTooLarge }
        // A reference of one byte stands for a field of kilobytes: behind a fault they are counted, and not looked at.
        guard fault == nil else { return true }
        if name.count > 0, name[0] == ASCII.colon {
            guard name.equals(":status"), status == nil, !seesFields, value.count == 3,
                let number = DecimalNumber.parse(value), number >= 100
            else { return refuse(name) }
            status = number
            // The corresponding status line of HTTP/1.1.
            head.byteCount = 14
            return true
        }
        seesFields = true
        // What pinproxy has written into the former head itself has a canonical name, with a capital first.
        if head.fields.count < limits.fieldCount, name.count > 0, name[0] > UInt8(ascii: "Z"),
            head.fields.append(ifNextOf: former, name: name, value: value)
        {
            head.byteCount &+= name.count &+ value.count &+ 4
            return true
        }
        let id = FieldName(name)
        // These mean something to some servers; in a response they mean nothing.
        if id == .underscoredContentLength || id == .underscoredTransferEncoding { return true }
        let text = value.extracting(value.trimmingBlanks(0..<value.count))
        guard SectionField.isWellFormed(id, name: name, value: text) else { return refuse(name) }
        guard head.fields.count < limits.fieldCount else {
            fault = .tooManyFields
            return true
        }
        head.fields.append(wellFormed: id, name: name, value: text)
        head.byteCount += name.count + value.count + 4
        return true
    }

    private mutating func refuse(_ name: borrowing Span<UInt8>) -> Bool {
        fault = .ofMalformedField(name)
        return false
    }

    /// Concludes the section, and resets for the next one: another head follows a 1xx head.
    ///
    /// - Returns: the reason why the response is refused; nil for a valid one.
    package mutating func conclude(answering method: HTTPMethod, into head: inout ResponseHead) -> ResponseFault? {
        defer { self = ResponseSection(limits: limits) }
        if let fault { return fault }
        guard let status else { return .statusInvalid }
        head.status = status
        head.majorVersion = 2
        head.minorVersion = 0
        return head.conclude(answering: method)
    }
}
