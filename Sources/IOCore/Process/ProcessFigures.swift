// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Statistics of this process (proc(5)). They need some reads of /proc: not for a loop that serves requests.
package struct ProcessFigures: Equatable, Sendable {
    /// Processor time, of the program and of the system on its behalf, in microseconds.
    package var processorTime = 0
    package var threads = 0
    package var virtualBytes = 0
    package var residentBytes = 0
    package var openDescriptors = 0
    /// The soft limit.
    package var maximalDescriptors = 0

    /// Reads the current values; unknown ones are 0.
    package static func read() -> ProcessFigures {
        let ticks = max(1, sysconf(Int32(_SC_CLK_TCK)))
        var figures = ProcessFigures(
            stat: contents("/proc/self/stat"),
            ticksPerSecond: ticks,
            pageSize: sysconf(Int32(_SC_PAGESIZE))
        )
        figures.openDescriptors = countDescriptors()
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            figures.maximalDescriptors = Int(clamping: limit.rlim_cur)
        }
        return figures
    }

    /// From the text of /proc/PID/stat.
    package init(stat text: String, ticksPerSecond: Int, pageSize: Int) {
        let fields = Self.fields(ofStat: text)
        // proc(5) counts from 1, and the two fields before the state were removed.
        func field(_ number: Int) -> Int { fields.count > number - 3 ? Int(fields[number - 3]) ?? 0 : 0 }
        processorTime = (field(14) + field(15)) * 1_000_000 / ticksPerSecond
        threads = field(20)
        virtualBytes = field(23)
        residentBytes = field(24) * pageSize
    }

    /// The fields from the state on, because the program's name before it may contain spaces and parentheses.
    private static func fields(ofStat text: String) -> [Substring] {
        guard let end = text.utf8.lastIndex(of: UInt8(ascii: ")")) else { return [] }
        return text[text.utf8.index(after: end)...].split { $0 == " " || $0 == "\n" }
    }

    private init() {}

    /// The start time of this process, in microseconds since 1970: calculated with the clock, and therefore read once
    /// and kept.
    package static func startTime() -> Int64 {
        let now = Clock.realtime
        var uptime = timespec()
        let fields = fields(ofStat: contents("/proc/self/stat"))
        guard clock_gettime(CLOCK_BOOTTIME, &uptime) == 0, fields.count > 19, let ticks = Int64(fields[19]) else {
            return now
        }
        let started = ticks * 1_000_000 / Int64(max(1, sysconf(Int32(_SC_CLK_TCK))))
        let running = Int64(uptime.tv_sec) * 1_000_000 + Int64(uptime.tv_nsec) / 1000
        return now - max(0, running - started)
    }

    private static func countDescriptors() -> Int {
        guard let folder = opendir("/proc/self/fd") else { return 0 }
        defer { closedir(folder) }
        // "." and "..", and the descriptor of the folder itself.
        var count = -3
        while readdir(folder) != nil { count += 1 }
        return max(0, count)
    }

    private static func contents(_ path: String) -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "" }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : ""
    }
}
