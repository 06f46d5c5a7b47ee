// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The model's own parser of fields: lines of text, names in lower case.
struct ModelFields {
    var lines: [(name: String, value: String)] = []

    init(_ lines: [(String, String)] = []) { self.lines = lines.map { (name: $0.0.lowercased(), value: $0.1) } }

    func all(_ name: String) -> [String] { lines.filter { $0.name == name }.map(\.value) }
    func first(_ name: String) -> String? { lines.first { $0.name == name }?.value }
    func has(_ name: String) -> Bool { lines.contains { $0.name == name } }
    func members(_ name: String) -> [String] { all(name).flatMap { ModelText.members($0) } }

    /// The parts of a response that are compared.
    var sorted: [String] { lines.map { "\($0.name): \($0.value)" }.sorted() }
}

enum ModelText {
    /// The members of a list, quotes respected.
    static func members(_ text: String) -> [String] {
        var found: [String] = []
        var member: [UInt8] = []
        var isQuoted = false
        func end() {
            let text = trimmed(member)
            if !text.isEmpty { found.append(text) }
            member = []
        }
        for byte in text.utf8 {
            if byte == 34 { isQuoted.toggle() }
            if byte == 44, !isQuoted { end() } else { member.append(byte) }
        }
        end()
        return found
    }

    static func trimmed(_ bytes: [UInt8]) -> String {
        var slice = bytes[...]
        while slice.first == 32 { slice = slice.dropFirst() }
        while slice.last == 32 { slice = slice.dropLast() }
        return String(decoding: slice, as: UTF8.self)
    }

    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// A date in the format IMF-fixdate.
    static func date(_ seconds: Int) -> String {
        var time = time_t(seconds)
        var parts = tm()
        gmtime_r(&time, &parts)
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let day =
            "\(days[Int(parts.tm_wday)]), \(two(parts.tm_mday)) \(months[Int(parts.tm_mon)]) \(parts.tm_year + 1900)"
        return "\(day) \(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec)) GMT"
    }

    /// - Returns: nil for an invalid date.
    static func seconds(_ date: String?) -> Int? {
        guard let date else { return nil }
        let words = date.split(separator: " ")
        guard words.count == 6, let month = months.firstIndex(of: String(words[2])) else { return nil }
        let clock = words[4].split(separator: ":").compactMap { Int32($0) }
        guard clock.count == 3, let day = Int32(words[1]), let year = Int32(words[3]) else { return nil }
        var parts = tm()
        (parts.tm_mday, parts.tm_mon, parts.tm_year) = (day, Int32(month), year - 1900)
        (parts.tm_hour, parts.tm_min, parts.tm_sec) = (clock[0], clock[1], clock[2])
        return Int(timegm(&parts))
    }
}

/// The directives of Cache-Control (RFC 9111 5.2), in the strictest reading of contradictions.
struct ModelDirectives {
    private(set) var seconds: [String: Int] = [:]
    private(set) var flags: Set<String> = []
    /// Of `no-cache` and `private`: the fields that they name.
    private(set) var named: [String: Set<String>] = [:]
    private(set) var isMalformed = false

    private static let forever = 1 << 31
    private static let counted = ["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"]

    init(_ fields: ModelFields) {
        for member in fields.members("cache-control") { take(member) }
        // The whole response includes all of its fields.
        for flag in flags { named[flag] = nil }
    }

    subscript(_ name: String) -> Int? { seconds[name] }
    func has(_ flag: String) -> Bool { flags.contains(flag) }
    func says(_ flag: String) -> Bool { flags.contains(flag) || named[flag] != nil }

    /// A directive of a request that is not obeyed.
    mutating func forget(_ name: String) {
        seconds[name] = nil
        flags.remove(name)
        named[name] = nil
    }

    private mutating func take(_ member: String) {
        let parts = member.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = parts[0].lowercased()
        guard !name.isEmpty else {
            isMalformed = true
            return
        }
        var argument = parts.count > 1 ? String(parts[1]) : nil
        if let text = argument, text.hasPrefix("\"") { argument = String(text.dropFirst().dropLast()) }
        let number = argument.flatMap { $0.allSatisfy(\.isNumber) ? Int($0) : nil }
        switch name {
        case _ where Self.counted.contains(name):
            let value = min(number ?? 0, Self.forever)
            seconds[name] = seconds[name] == nil || seconds[name] == value ? value : 0
        case "min-fresh": seconds[name] = max(seconds[name] ?? 0, number ?? Self.forever)
        case "max-stale":
            let value = argument == nil ? Int.max : number ?? 0
            seconds[name] = seconds[name] == nil || seconds[name] == value ? value : 0
        case "no-cache", "private":
            if let argument {
                named[name, default: []].formUnion(ModelText.members(argument.lowercased()))
            } else {
                flags.insert(name)
            }
        default: flags.insert(name)
        }
    }
}
