// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Sends notifications to the service manager that has started this process: sd_notify(3), one datagram for each
/// message.
package final class ServiceNotifier: Sendable {
    private let descriptor: Int32
    private let address: sockaddr_un
    private let length: socklen_t
    /// The watchdog's interval in nanoseconds; nil without a watchdog.
    package let watchdogTime: UInt64?

    /// Nil without a service manager: NOTIFY_SOCKET is not set.
    ///
    /// - Parameter variable: looks up the environment variables NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
    package init?(variable: (String) -> String? = { name in getenv(name).map { String(cString: $0) } }) {
        guard let name = variable("NOTIFY_SOCKET"), let (address, length) = Self.address(name) else { return nil }
        let created = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard created >= 0 else { return nil }
        descriptor = created
        self.address = address
        self.length = length
        let isMeant = variable("WATCHDOG_PID").map { $0 == "\(getpid())" } ?? true
        let microseconds = variable("WATCHDOG_USEC").flatMap { UInt64($0) } ?? 0
        watchdogTime = isMeant && microseconds > 0 && microseconds < 1 << 50 ? microseconds * 1000 : nil
    }

    deinit { close(descriptor) }

    /// The address of a path, or of an abstract name, which begins with `@`.
    private static func address(_ name: String) -> (sockaddr_un, socklen_t)? {
        var bytes = Array(name.utf8)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let room = MemoryLayout.size(ofValue: address.sun_path)
        guard let first = bytes.first, bytes.count < room, first == UInt8(ascii: "@") || first == UInt8(ascii: "/")
        else { return nil }
        if first == UInt8(ascii: "@") { bytes[0] = 0 }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        return (address, socklen_t(MemoryLayout<sockaddr_un>.size - room + bytes.count))
    }

    /// Sends a message: `READY=1`, `STOPPING=1`, `WATCHDOG=1`, several on lines of their own. It never blocks, and
    /// ignores failures.
    package func notify(_ message: String) {
        var address = address
        let text = Array(message.utf8)
        _ = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(descriptor, text, text.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL), $0, length)
            }
        }
    }
}
