// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The date formats of HTTP (RFC 9110 5.6.7), from and to seconds since 1970.
package enum HTTPDate {
    private static let weekdays: [StaticString] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let longWeekdays: [StaticString] = [
        "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
    ]
    private static let months: [StaticString] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// IMF-fixdate, 29 bytes: `Sun, 06 Nov 1994 08:49:37 GMT`. Years from 0 to 9999.
    package static func format(unixSeconds: Int) -> [UInt8] {
        let time = CivilTime(unixSeconds: unixSeconds)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(29)
        bytes.append(weekdays[time.weekday].bytes)
        bytes.append(contentsOf: ", ".utf8)
        bytes.appendDigits(time.day, 2)
        bytes.append(ASCII.space)
        bytes.append(months[time.month - 1].bytes)
        bytes.append(ASCII.space)
        bytes.appendDigits(time.year, 4)
        bytes.append(ASCII.space)
        bytes.appendClock(time)
        bytes.append(contentsOf: " GMT".utf8)
        return bytes
    }

    /// Reads the three forms: IMF-fixdate, RFC 850 and asctime.
    ///
    /// - Parameter now: decides the century of the two-digit year of RFC 850: a date more than 50 years ahead is in the
    ///   previous century.
    /// - Returns: nil when it has none of these forms or does not exist. A weekday that does not match the date is
    ///   accepted, an unknown name is not.
    package static func parse(_ text: borrowing Span<UInt8>, now: Int) -> Int? {
        guard let comma = text.firstIndex(of: ASCII.comma) else { return parseAsctime(text) }
        if comma == 3 { return parseFixdate(text) }
        return parseRFC850(text, comma, now)
    }

    private static func parseFixdate(_ text: borrowing Span<UInt8>) -> Int? {
        guard text.count == 29, index(of: text, 0..<3, in: weekdays) != nil, text.matches(", ", at: 3),
            let day = number(text, 5, 2), text.matches(" ", at: 7), let month = index(of: text, 8..<11, in: months),
            text.matches(" ", at: 11), let year = number(text, 12, 4), text.matches(" ", at: 16),
            let clock = clock(text, 17), text.matches(" GMT", at: 25)
        else { return nil }
        return seconds(year, month, day, clock)
    }

    private static func parseRFC850(_ text: borrowing Span<UInt8>, _ comma: Int, _ now: Int) -> Int? {
        guard text.count == comma + 24, index(of: text, 0..<comma, in: longWeekdays) != nil,
            text.matches(", ", at: comma), let day = number(text, comma + 2, 2), text.matches("-", at: comma + 4),
            let month = index(of: text, comma + 5..<comma + 8, in: months), text.matches("-", at: comma + 8),
            let shortYear = number(text, comma + 9, 2), text.matches(" ", at: comma + 11),
            let clock = clock(text, comma + 12), text.matches(" GMT", at: comma + 20)
        else { return nil }
        let present = CivilTime(unixSeconds: now)
        let year = present.year / 100 * 100 + shortYear
        guard let date = seconds(year, month, day, clock) else { return seconds(year - 100, month, day, clock) }
        var limit = present
        limit.year += 50
        return date > limit.unixSeconds ? seconds(year - 100, month, day, clock) : date
    }

    private static func parseAsctime(_ text: borrowing Span<UInt8>) -> Int? {
        guard text.count == 24, index(of: text, 0..<3, in: weekdays) != nil, text.matches(" ", at: 3),
            let month = index(of: text, 4..<7, in: months), text.matches(" ", at: 7),
            let day = text[8] == ASCII.space ? number(text, 9, 1) : number(text, 8, 2), text.matches(" ", at: 10),
            let clock = clock(text, 11), text.matches(" ", at: 19), let year = number(text, 20, 4)
        else { return nil }
        return seconds(year, month, day, clock)
    }

    private static func clock(_ text: borrowing Span<UInt8>, _ at: Int) -> (hour: Int, minute: Int, second: Int)? {
        guard let hour = number(text, at, 2), text.matches(":", at: at + 2), let minute = number(text, at + 3, 2),
            text.matches(":", at: at + 5), let second = number(text, at + 6, 2)
        else { return nil }
        return (hour, minute, second)
    }

    private static func seconds(
        _ year: Int,
        _ monthIndex: Int,
        _ day: Int,
        _ clock: (hour: Int, minute: Int, second: Int)
    ) -> Int? {
        let time = CivilTime(
            year: year,
            month: monthIndex + 1,
            day: day,
            hour: clock.hour,
            minute: clock.minute,
            second: clock.second
        )
        return time.isValid ? time.unixSeconds : nil
    }

    private static func number(_ text: borrowing Span<UInt8>, _ at: Int, _ digits: Int) -> Int? {
        DecimalNumber.parse(text.extracting(at..<at + digits))
    }

    private static func index(of text: borrowing Span<UInt8>, _ range: Range<Int>, in names: [StaticString]) -> Int? {
        for index in names.indices where text.extracting(range).equals(names[index]) { return index }
        return nil
    }
}

extension Span where Element == UInt8 {
    fileprivate func matches(_ text: StaticString, at start: Int) -> Bool {
        let wanted = text.bytes
        guard start + wanted.count <= count else { return false }
        return extracting(start..<start + wanted.count).equals(wanted)
    }
}

extension [UInt8] {
    /// Appends `value` in `digits` decimal digits, with leading zeros.
    mutating func appendDigits(_ value: Int, _ digits: Int) {
        var divisor: UInt = 1
        for _ in 1..<digits { divisor *= 10 }
        while divisor > 0 {
            append(UInt8(ascii: "0") + UInt8(value.magnitude / divisor % 10))
            divisor /= 10
        }
    }

    /// `08:49:37`
    mutating func appendClock(_ time: CivilTime) {
        appendDigits(time.hour, 2)
        append(ASCII.colon)
        appendDigits(time.minute, 2)
        append(ASCII.colon)
        appendDigits(time.second, 2)
    }
}
