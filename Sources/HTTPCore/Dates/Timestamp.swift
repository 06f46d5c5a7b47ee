// SPDX-License-Identifier: Apache-2.0
/// Times in the format of RFC 3339, in UTC.
package enum Timestamp {
    /// `2026-11-21T06:00:00Z`. Years from 0 to 9999.
    package static func text(unixSeconds: Int64) -> String {
        String(decoding: bytes(CivilTime(unixSeconds: Int(unixSeconds))), as: UTF8.self) + "Z"
    }

    /// Reads a time of RFC 3339, section 5.6, such as `2026-11-21T06:00:00Z` or `2026-11-21t07:00:00.5+01:00`.
    ///
    /// - Returns: seconds since 1970, without the fraction; nil for anything else.
    package static func parse(_ text: [UInt8]) -> Int64? {
        guard text.count >= 20 else { return nil }
        func number(_ range: Range<Int>) -> Int? { DecimalNumber.parse(text.span.extracting(range)) }
        for (place, byte) in [(4, UInt8(ascii: "-")), (7, UInt8(ascii: "-")), (13, ASCII.colon), (16, ASCII.colon)] {
            guard text[place] == byte else { return nil }
        }
        guard text[10] | 0x20 == UInt8(ascii: "t"), let year = number(0..<4), let month = number(5..<7),
            let day = number(8..<10), let hour = number(11..<13), let minute = number(14..<16),
            let second = number(17..<19)
        else { return nil }
        let time = CivilTime(year: year, month: month, day: day, hour: hour, minute: minute, second: second)
        guard time.isValid else { return nil }
        var rest = text[19...]
        if rest.first == ASCII.dot {
            let digits = rest.dropFirst().prefix { ASCII.isDigit($0) }
            guard !digits.isEmpty else { return nil }
            rest = rest[digits.endIndex...]
        }
        guard let zone = offset(Array(rest)) else { return nil }
        return Int64(time.unixSeconds - zone)
    }

    /// The seconds by which a zone is before UTC: `Z`, `+01:00`.
    private static func offset(_ zone: [UInt8]) -> Int? {
        if zone.count == 1 { return zone[0] | 0x20 == UInt8(ascii: "z") ? 0 : nil }
        guard zone.count == 6, zone[3] == ASCII.colon, let hours = DecimalNumber.parse(zone.span.extracting(1..<3)),
            let minutes = DecimalNumber.parse(zone.span.extracting(4..<6)), hours < 24, minutes < 60
        else { return nil }
        switch zone[0] {
        case UInt8(ascii: "+"): return hours * 3600 + minutes * 60
        case UInt8(ascii: "-"): return -(hours * 3600 + minutes * 60)
        default: return nil
        }
    }

    /// Without the zone, so that a fraction can follow: `2026-11-21T06:00:00`.
    static func bytes(_ time: CivilTime) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(20)
        bytes.appendDigits(time.year, 4)
        bytes.append(UInt8(ascii: "-"))
        bytes.appendDigits(time.month, 2)
        bytes.append(UInt8(ascii: "-"))
        bytes.appendDigits(time.day, 2)
        bytes.append(UInt8(ascii: "T"))
        bytes.appendClock(time)
        return bytes
    }
}
