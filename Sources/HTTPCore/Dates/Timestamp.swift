/// Times in the format of RFC 3339, in UTC.
package enum Timestamp {
    /// `2026-11-21T06:00:00Z`. Years from 0 to 9999.
    package static func text(unixSeconds: Int64) -> String {
        String(decoding: bytes(CivilTime(unixSeconds: Int(unixSeconds))), as: UTF8.self) + "Z"
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
