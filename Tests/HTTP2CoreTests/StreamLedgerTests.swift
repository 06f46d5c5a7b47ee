// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import HTTP2Core

@Suite("What became of a client's streams")
struct StreamLedgerTests {
    @Test("frames on an orderly closed stream are a connection error")
    func closed() {
        var ledger = StreamLedger()
        for stream: Int32 in [1, 3, 5] { ledger.opened(stream) }
        #expect(ledger.last == 5)
        #expect(ledger.evaluate(.data, on: 3) == .violation(.streamClosed))
        #expect(ledger.evaluate(.headers, on: 3) == .violation(.streamClosed))
    }

    @Test("a skipped stream number may not be used any more")
    func skipped() {
        var ledger = StreamLedger()
        for stream: Int32 in [1, 7, 9] { ledger.opened(stream) }
        for stream: Int32 in [3, 5] { #expect(ledger.evaluate(.headers, on: stream) == .violation(.protocolError)) }
        for stream: Int32 in [1, 7, 9] { #expect(ledger.evaluate(.headers, on: stream) == .violation(.streamClosed)) }
        #expect(ledger.evaluate(.data, on: 3) == .violation(.streamClosed))
    }

    @Test("frames in flight after a reset are late; the newest 256 are known")
    func reset() {
        var ledger = StreamLedger()
        for number: Int32 in 0..<300 {
            ledger.opened(2 * number + 1)
            ledger.wasReset(2 * number + 1)
        }
        #expect(ledger.evaluate(.data, on: 599) == .late && ledger.evaluate(.headers, on: 89) == .late)
        #expect(ledger.evaluate(.data, on: 87) == .violation(.streamClosed))
    }

    @Test("the newest skipped numbers are known, and a violation stays one")
    func manySkipped() {
        var ledger = StreamLedger()
        for number: Int32 in 0..<20 { ledger.opened(4 * number + 3) }
        #expect(ledger.evaluate(.headers, on: 77) == .violation(.protocolError))
        #expect(ledger.evaluate(.headers, on: 1) == .violation(.streamClosed))
    }

    @Test("the greatest number of a stream is one like the others")
    func greatest() {
        var ledger = StreamLedger()
        for stream: Int32 in [1, .max, .max] { ledger.opened(stream) }
        #expect(ledger.last == .max)
        #expect(ledger.evaluate(.headers, on: 3) == .violation(.protocolError))
    }
}
