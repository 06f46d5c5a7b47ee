// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import Testing

@Suite("Dates")
struct HTTPDateTests {
    private func parse(_ text: String, now: Int = 1_795_000_000) -> Int? {
        HTTPDate.parse(Array(text.utf8).span, now: now)
    }

    @Test(
        "the three forms of RFC 9110 5.6.7 are the same moment",
        arguments: ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
    )
    func threeForms(text: String) {
        #expect(parse(text) == 784_111_777)
    }

    @Test("a date is formatted as IMF-fixdate")
    func format() {
        #expect(
            String(decoding: HTTPDate.format(unixSeconds: 784_111_777), as: UTF8.self)
                == "Sun, 06 Nov 1994 08:49:37 GMT"
        )
        #expect(String(decoding: HTTPDate.format(unixSeconds: 0), as: UTF8.self) == "Thu, 01 Jan 1970 00:00:00 GMT")
        #expect(
            String(decoding: HTTPDate.format(unixSeconds: 951_782_400), as: UTF8.self)
                == "Tue, 29 Feb 2000 00:00:00 GMT"
        )
    }

    @Test("the calendar agrees with Foundation's over four centuries, both ways")
    func calendar() throws {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "UTC")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        var second = -8_000_000_000
        while second < 8_000_000_000 {
            let text = formatter.string(from: Date(timeIntervalSince1970: TimeInterval(second)))
            #expect(String(decoding: HTTPDate.format(unixSeconds: second), as: UTF8.self) == text)
            #expect(parse(text) == second)
            second += 17_171_717
        }
    }

    @Test("the two-digit year of RFC 850 lies at most 50 years ahead")
    func twoDigitYear() {
        let now = 1_795_000_000  // 2026
        #expect(parse("Friday, 31-Dec-99 23:59:59 GMT", now: now) == 946_684_799)
        #expect(parse("Friday, 31-Jan-76 00:00:00 GMT", now: now).map { $0 > now } == true)
        #expect(parse("Friday, 31-Jan-77 00:00:00 GMT", now: now).map { $0 < now } == true)
    }

    @Test(
        "text that is no date is refused",
        arguments: [
            "", "0", "-1", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:60:00 GMT", "Sun, 06 nov 1994 08:49:37 GMT",
            "Xxx, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT ", "Sun, 29 Feb 1900 00:00:00 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT", "Sun Nov 06 8:49:37 1994", "1994-11-06T08:49:37Z",
            "Sun, +6 Nov 1994 08:49:37 GMT", ", ", "Sunday,",
        ]
    )
    func refused(text: String) {
        #expect(parse(text) == nil)
    }

    @Test(
        "a time outside four-digit years is written as the nearest inside",
        arguments: [
            (Int.min, "0000-01-01T00:00:00Z"), (-62_167_219_201, "0000-01-01T00:00:00Z"),
            (-62_167_219_200, "0000-01-01T00:00:00Z"), (253_402_300_799, "9999-12-31T23:59:59Z"),
            (253_402_300_800, "9999-12-31T23:59:59Z"), (Int.max, "9999-12-31T23:59:59Z"),
        ]
    )
    func bounds(seconds: Int, text: String) {
        #expect(Timestamp.text(unixSeconds: Int64(seconds)) == text)
        #expect(String(decoding: HTTPDate.format(unixSeconds: seconds), as: UTF8.self).hasSuffix(" GMT"))
    }

    @Test(
        "a log time has milliseconds",
        arguments: [
            (1_795_240_800_123, "2026-11-21T06:00:00.123Z"), (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"), (7, "1970-01-01T00:00:00.007Z"),
        ]
    )
    func timestamps(milliseconds: Int, text: String) {
        var stamp = CachedTimestamp()
        var buffer = ByteBuffer()
        stamp.append(unixMilliseconds: milliseconds, to: &buffer)
        stamp.append(unixMilliseconds: milliseconds, to: &buffer)
        #expect(String(copying: buffer.bytes) == text + text)
    }

    @Test("a time outside the years 0000 to 9999 becomes the nearest inside")
    func beyondTheYears() {
        for second in [Int.min, -62_167_219_201, -62_167_219_200] {
            #expect(Timestamp.text(unixSeconds: Int64(second)) == "0000-01-01T00:00:00Z", "\(second)")
            #expect(
                String(decoding: HTTPDate.format(unixSeconds: second), as: UTF8.self) == "Sat, 01 Jan 0000 00:00:00 GMT"
            )
        }
        for second in [Int.max, 253_402_300_800, 253_402_300_799] {
            #expect(Timestamp.text(unixSeconds: Int64(second)) == "9999-12-31T23:59:59Z", "\(second)")
        }
    }
}
