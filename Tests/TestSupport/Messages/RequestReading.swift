// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore

/// The result of parsing: the accepted heads, and the final fault, if any.
package struct RequestReading: Equatable {
    package var heads: [RequestSummary] = []
    package var fault: RequestFault?
    /// Whether a head is incomplete.
    package var isUnfinished = false
    /// Whether the parser asked for more before it had consumed its input, which would be a bug.
    package var leftBytesBehind = false

    /// Parses `bytes` in pieces of `pieceSize`, as a sequence of heads without bodies.
    package init(_ bytes: [UInt8], pieceSize: Int, limits: HeadLimits = HeadLimits()) {
        var parser = RequestParser(limits: limits)
        var head = RequestHead()
        var position = 0
        while position < bytes.count {
            let end = min(bytes.count, position + pieceSize)
            let (consumed, outcome) = parser.parse(bytes.span.extracting(position..<end), into: &head)
            position += consumed
            switch outcome {
            case .needMore:
                guard position == end else {
                    leftBytesBehind = true
                    return
                }
            case .complete: heads.append(RequestSummary(head))
            case .failed(let fault):
                self.fault = fault
                return
            }
        }
        isUnfinished = parser.isInsideHead
    }
}

/// The contents of a head, in comparable form.
package struct RequestSummary: Equatable {
    package let method: HTTPMethod
    package let form: RequestHead.Form
    package let scheme: RequestHead.Scheme?
    package let port: UInt16?
    package let minorVersion: UInt8
    package let fields: HeaderFields
    package let framing: BodyFraming
    package let keepAlive: Bool
    package let expectsContinue: Bool
    package let wantsUpgrade: Bool
    package let host: Host?
    package let target: String
    package let rawTarget: String
    package let rawHost: String
    package let byteCount: Int

    package init(_ head: borrowing RequestHead) {
        method = head.method
        form = head.form
        scheme = head.scheme
        port = head.port
        minorVersion = head.minorVersion
        fields = head.fields
        framing = head.framing
        keepAlive = head.keepAlive
        expectsContinue = head.expectsContinue
        wantsUpgrade = head.wantsUpgrade
        host = head.host
        target = String(copying: head.target)
        rawTarget = String(copying: head.rawTarget)
        rawHost = String(copying: head.rawHost)
        byteCount = head.byteCount
    }

    /// The head serialised again, field by field.
    package var written: [UInt8] {
        var buffer = ByteBuffer()
        method.append(to: &buffer)
        buffer.append(" ")
        buffer.append(text: rawTarget)
        buffer.append(minorVersion == 0 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n")
        fields.serialize(into: &buffer)
        buffer.appendHeadEnd()
        var bytes: [UInt8] = []
        bytes.append(buffer.bytes)
        return bytes
    }

    /// Whether both have the same meaning, independent of their spelling.
    package func isSame(as other: RequestSummary) -> Bool {
        method == other.method && form == other.form && host == other.host && port == other.port
            && target == other.target && fields == other.fields && framing == other.framing
            && keepAlive == other.keepAlive && expectsContinue == other.expectsContinue
            && wantsUpgrade == other.wantsUpgrade && scheme == other.scheme
    }
}
