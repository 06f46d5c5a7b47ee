// SPDX-License-Identifier: Apache-2.0
/// A calendar date and time of day in UTC, without leap seconds (POSIX time).
struct CivilTime {
    var year: Int
    /// 1 to 12.
    var month: Int
    /// 1 to 31.
    var day: Int
    var hour: Int
    var minute: Int
    var second: Int

    private static let secondsInDay = 86_400
    /// Days from 0000-03-01 to 1970-01-01 in the Gregorian calendar: years are counted from March, so that the leap day
    /// is the last of its year.
    private static let daysToEpoch = 719_468
    private static let daysInEra = 146_097

    init(year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int) {
        self.year = year
        self.month = month
        self.day = day
        self.hour = hour
        self.minute = minute
        self.second = second
    }

    /// The seconds of the years that have four digits, as the forms of dates need them.
    private static let writable = -62_167_219_200...253_402_300_799

    /// - Parameter time: seconds since 1970; outside of the years 0 to 9999 the nearest second of these.
    init(unixSeconds time: Int) {
        let unixSeconds = min(max(time, Self.writable.lowerBound), Self.writable.upperBound)
        let days = Self.floorDivide(unixSeconds, Self.secondsInDay)
        let rest = unixSeconds - days * Self.secondsInDay
        hour = rest / 3600
        minute = rest / 60 % 60
        second = rest % 60

        let shifted = days + Self.daysToEpoch
        let era = Self.floorDivide(shifted, Self.daysInEra)
        let dayOfEra = shifted - era * Self.daysInEra
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    private static func floorDivide(_ value: Int, _ divisor: Int) -> Int {
        value >= 0 ? value / divisor : (value + 1) / divisor - 1
    }

    var unixSeconds: Int {
        let shiftedYear = month <= 2 ? year - 1 : year
        let era = Self.floorDivide(shiftedYear, 400)
        let yearOfEra = shiftedYear - era * 400
        let monthFromMarch = month > 2 ? month - 3 : month + 9
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        let days = era * Self.daysInEra + dayOfEra - Self.daysToEpoch
        return days * Self.secondsInDay + hour * 3600 + minute * 60 + second
    }

    /// 0 is Sunday.
    var weekday: Int {
        let days = Self.floorDivide(unixSeconds, Self.secondsInDay)
        let weekday = (days + 4) % 7
        return weekday < 0 ? weekday + 7 : weekday
    }

    /// Whether the date and time exist. A leap second is valid; it counts as the first second of the next minute.
    var isValid: Bool {
        guard (1...12).contains(month), day >= 1, day <= daysInMonth else { return false }
        return (0...23).contains(hour) && (0...59).contains(minute) && (0...60).contains(second)
    }

    private var daysInMonth: Int {
        switch month {
        case 2: (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}
