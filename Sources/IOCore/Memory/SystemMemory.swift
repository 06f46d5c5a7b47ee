// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// The process's memory as the system sees it.
package enum SystemMemory {
    /// Returns freed memory of this thread to the system. It takes milliseconds: call it only when idle.
    package static func release() {
        pinproxy_release_memory()
    }

    /// The memory that this process may use at most: the machine's, or less where its control group has a limit
    /// (cgroups(7)).
    package static let available: Int = {
        let machine = sysconf(Int32(_SC_PHYS_PAGES)) * sysconf(Int32(_SC_PAGESIZE))
        let own = path(ofGroup: contents("/proc/self/cgroup"))
        // In a container the own group is often the root of what can be seen.
        let groups = ["/sys/fs/cgroup\(own)/memory.max", "/sys/fs/cgroup/memory.max"]
        return groups.compactMap { limit(contents($0)) }.reduce(machine > 0 ? machine : 1 << 30, min)
    }()

    /// The path of the group in the unified hierarchy, from the text of /proc/self/cgroup; empty without one.
    static func path(ofGroup text: String) -> String {
        for line in text.split(separator: "\n") where line.hasPrefix("0::/") { return String(line.dropFirst(3)) }
        return ""
    }

    /// The limit of a group, from the text of `memory.max`; nil without a limit.
    static func limit(_ text: String) -> Int? {
        guard let line = text.split(separator: "\n").first, let bytes = Int(line), bytes > 0 else { return nil }
        return bytes
    }

    private static func contents(_ path: String) -> String {
        guard let file = fopen(path, "re") else { return "" }
        defer { fclose(file) }
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = fread(&buffer, 1, buffer.count, file)
        return String(decoding: buffer[..<count], as: UTF8.self)
    }
}
