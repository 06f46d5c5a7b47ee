// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import ProxyCore

/// The examples of https://protobuf.dev/programming-guides/encoding/, and the limits of each type.
@Suite("Messages of Protocol Buffers")
struct ProtobufWriterTests {
    private func bytes(_ write: (inout ProtobufWriter) -> Void) -> [UInt8] {
        var writer = ProtobufWriter()
        write(&writer)
        return writer.bytes
    }

    @Test("numbers, texts and messages as the guide has them")
    func guide() {
        #expect(bytes { $0.write(150, at: 1) } == [0x08, 0x96, 0x01])
        #expect(bytes { $0.writeText(Array("testing".utf8), at: 2) } == [0x12, 7] + Array("testing".utf8))
        #expect(bytes { $0.writeMessage(at: 3) { $0.write(150, at: 1) } } == [0x1A, 3, 0x08, 0x96, 0x01])
        #expect(bytes { $0.write(UInt64.max, at: 16) } == [0x80, 0x01] + Array(repeating: 0xFF, count: 9) + [1])
        #expect(bytes { $0.writeFixed64(0x0102, at: 7) } == [0x39, 2, 1, 0, 0, 0, 0, 0, 0])
        #expect(bytes { $0.writeFixed32(0x0301, at: 16) } == [0x85, 0x01, 1, 3, 0, 0])
        #expect(bytes { $0.writeIdentifier(0x0102, at: 2) } == [0x12, 8, 0, 0, 0, 0, 0, 0, 1, 2])
    }

    @Test("zeros are left out, unless they are a choice")
    func zeros() {
        let empty = bytes {
            $0.write(0, at: 1)
            $0.writeFixed64(0, at: 1)
            $0.writeFixed32(0, at: 1)
            $0.write([], at: 1)
            $0.writeIdentifier(0, 0, at: 1)
        }
        #expect(empty.isEmpty)
        #expect(bytes { $0.writeNumber(0, at: 2) } == [0x10, 0])
        #expect(bytes { $0.writeText([], at: 1) } == [0x0A, 0])
        #expect(bytes { $0.writeMessage(at: 1) { _ in } } == [0x0A, 0])
    }

    @Test("text that is not UTF-8 is repaired: a reader would refuse the whole message")
    func repaired() {
        #expect(bytes { $0.writeText([0x61, 0xFF], at: 1) } == [0x0A, 4, 0x61, 0xEF, 0xBF, 0xBD])
        #expect(bytes { $0.writeText([0xC3, 0xA9], at: 1) } == [0x0A, 2, 0xC3, 0xA9])
    }

    @Test("the response of a collector decides whether spans are sent again")
    func outcomes() {
        #expect(SpanDelivery.outcome(status: 200) == .delivered)
        for status in [429, 502, 503, 504] {
            #expect(SpanDelivery.outcome(status: status, 2000) == .failed(after: 2000))
        }
        for status in [302, 400, 401, 404, 413, 500, 501] { #expect(SpanDelivery.outcome(status: status) == .refused) }
    }
}
