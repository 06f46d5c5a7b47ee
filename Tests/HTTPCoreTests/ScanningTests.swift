// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@Suite("Scanning a word at a time")
struct ScanningTests {
    @Test("every byte is found and judged at every place of runs of every length")
    func everyPlace() {
        for count in 0..<26 {
            for place in 0..<count {
                for byte in UInt8.min...UInt8.max {
                    var bytes = [UInt8](repeating: 0xE9, count: count)
                    bytes[place] = byte
                    if place + 1 < count { bytes[place + 1] = byte }
                    let isRefused = (byte < 0x20 && byte != 9) || byte == 0x7F
                    let found = bytes.span.firstIndexOutsideFieldValue(in: 0..<count)
                    guard found == (isRefused ? place : nil) else {
                        Issue.record("byte \(byte) at \(place) of \(count): \(String(describing: found))")
                        return
                    }
                    let isControl = byte < 0x20 || byte == 0x7F
                    guard bytes.span.firstIndexOfControl(from: 0) == (isControl ? place : nil),
                        bytes.span.firstIndexOfControl(from: place) == (isControl ? place : nil),
                        bytes.span.firstIndexOfControl(from: count) == nil
                    else {
                        Issue.record("control \(byte) at \(place) of \(count)")
                        return
                    }
                    guard bytes.span.hasCapitals == (byte >= 0x41 && byte <= 0x5A) else {
                        Issue.record("capital \(byte) at \(place) of \(count)")
                        return
                    }
                    let first = bytes.span.firstIndex(of: byte)
                    guard first == (byte == 0xE9 ? 0 : place),
                        bytes.span.firstIndex(of: 0x0A, from: place) == (byte == 0x0A ? place : nil)
                    else {
                        Issue.record("byte \(byte) at \(place) of \(count) is not found")
                        return
                    }
                }
            }
        }
    }

    @Test("special JSON bytes are found in runs of every length")
    func otherClasses() {
        for count in 0..<26 {
            for place in 0..<count {
                for byte in UInt8.min...UInt8.max {
                    var bytes = [UInt8](repeating: 0x61, count: count)
                    bytes[place] = byte
                    if place + 1 < count { bytes[place + 1] = byte }
                    let isEscaped = byte < 0x20 || byte == 0x22 || byte == 0x5C || byte == 0x7F
                    let isVisible = byte > 0x20 && byte < 0x7F
                    let isControl = byte < 0x20 || byte == 0x7F
                    guard bytes.span.firstIndexForJSON(from: 0) == (isEscaped ? place : nil),
                        bytes.span.firstIndexOfControl(from: 0) == (isControl ? place : nil),
                        bytes.span.firstIndexOutsideFieldValue(in: 0..<count) == (isControl && byte != 9 ? place : nil),
                        bytes.span.firstIndexOutsideVisible(in: 0..<count) == (isVisible ? nil : place),
                        bytes.span.firstIndexOutsideVisible(in: place + 1..<count)
                            == (isVisible || place + 1 == count ? nil : place + 1)
                    else {
                        Issue.record("byte \(byte) at \(place) of \(count)")
                        return
                    }
                }
            }
        }
    }

    @Test("a field name is known in any case, and with no other byte")
    func names() {
        for name in FieldName.allCases where name != .other {
            let text = Array("\(name.text)".utf8)
            for place in text.indices {
                for byte in UInt8.min...UInt8.max {
                    var changed = text
                    changed[place] = byte
                    let isSame = ASCII.lowercased(byte) == ASCII.lowercased(text[place])
                    // At the end of the bytes, and within more of them.
                    let inner = (changed + Array(": value\r\n".utf8)).span
                    let found = [FieldName(changed.span), FieldName(inner.extracting(0..<changed.count))]
                    guard found.allSatisfy({ ($0 == name) == isSame }) else {
                        Issue.record("\(name.text) with byte \(byte) at \(place)")
                        return
                    }
                }
            }
        }
    }

    @Test("a reused head has nothing of the request before")
    func reuse() {
        let long =
            "POST https://long-name.example:8443/path?q HTTP/1.0\r\nHost: long-name.example:8443\r\nConnection: keep-alive, x\r\nContent-Length: 7\r\n\r\n"
        let upload =
            "PUT /x HTTP/1.1\r\nHost: [::1]\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nUpgrade: a\r\nConnection: upgrade, close\r\n\r\n"
        let short = "GET / HTTP/1.1\r\nHost: b\r\n\r\n"
        let texts = [
            long, short, upload, short, "OPTIONS * HTTP/1.1\r\nHost: c\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", short, long,
        ]
        let together = readBothWays(Array(texts.joined().utf8)).heads
        #expect(together.count == texts.count)
        for (text, head) in zip(texts, together) {
            #expect(readBothWays(Array(text.utf8)).heads == [head])
        }
    }

    @Test("a released head is as good as a new one")
    func release() throws {
        var head = try accept("POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\n")
        head.release()
        #expect(RequestSummary(head) == RequestSummary(RequestHead()))
    }
}
