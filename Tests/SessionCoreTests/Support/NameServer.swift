import Foundation
import Glibc
import TestSupport

/// A name server on a UDP port of 127.0.0.1.
final class NameServer: Sendable {
    enum Response: Sendable {
        /// For A; AAAA has no address.
        case address(UInt32, lifetime: UInt32)
        /// For A; AAAA gets no response.
        case addressAndSilence(UInt32, lifetime: UInt32)
        /// ::1 for AAAA; A gets no response.
        case silenceAndLoopback
        case noSuchName
        case serverFailure
        case silence
    }

    let port: UInt16
    private let descriptor: Int32
    /// The questions for A, in their order.
    private let asked = Monitor<[String]>([])
    private let ended = DispatchSemaphore(value: 0)

    /// As `SessionConfiguration.nameServers`.
    var text: String { "127.0.0.1:\(port)" }
    var questions: [String] { asked.with { $0 } }

    /// - Parameter answers: asked with the number of earlier questions for the name.
    init(_ answers: @escaping @Sendable (_ name: String, _ count: Int) -> Response) throws {
        let descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard bound else { throw TestSocket.Failure("bind") }
        self.descriptor = descriptor
        port = UInt16(bigEndian: address.sin_port)
        Thread.detachNewThread { [asked, ended] in
            Self.serve(descriptor, answers, asked)
            ended.signal()
        }
    }

    deinit {
        // An empty datagram ends the thread.
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = port.bigEndian
        _ = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(descriptor, nil, 0, 0, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        ended.wait()
        close(descriptor)
    }

    private static func serve(
        _ descriptor: Int32,
        _ answers: (String, Int) -> Response,
        _ asked: Monitor<[String]>
    ) {
        var buffer = [UInt8](repeating: 0, count: 1500)
        while true {
            var peer = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let count = withUnsafeMutablePointer(to: &peer) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    recvfrom(descriptor, &buffer, buffer.count, 0, $0, &length)
                }
            }
            guard count > 0 else { return }
            guard let reply = reply(Array(buffer[..<count]), answers, asked) else { continue }
            _ = withUnsafePointer(to: &peer) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    sendto(descriptor, reply, reply.count, 0, $0, length)
                }
            }
        }
    }

    private static func reply(
        _ query: [UInt8],
        _ answers: (String, Int) -> Response,
        _ asked: Monitor<[String]>
    ) -> [UInt8]? {
        guard query.count > 16 else { return nil }
        var labels: [String] = []
        var place = 12
        while place < query.count, query[place] != 0 {
            let end = place + 1 + Int(query[place])
            guard end < query.count else { return nil }
            labels.append(String(decoding: query[(place + 1)..<end], as: UTF8.self))
            place = end
        }
        let end = place + 5
        guard end <= query.count else { return nil }
        let isIPv4 = query[place + 2] == 1
        let name = labels.joined(separator: ".")
        let earlier = asked.with { list in
            defer { if isIPv4 { list.append(name) } }
            return list.count { $0 == name }
        }
        var code: UInt8 = 0
        var record: [UInt8] = []
        let response = answers(name, earlier)
        switch response {
        case .silence: return nil
        case .noSuchName: code = 3
        case .serverFailure: code = 2
        case .silenceAndLoopback:
            if isIPv4 { return nil }
            record = [0xC0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16] + [UInt8](repeating: 0, count: 15) + [1]
        case .addressAndSilence(let address, let lifetime), .address(let address, let lifetime):
            guard isIPv4 else {
                if case .addressAndSilence = response { return nil }
                break
            }
            func bytes(_ number: UInt32) -> [UInt8] {
                (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }
            }
            record = [0xC0, 12, 0, 1, 0, 1] + bytes(lifetime) + [0, 4] + bytes(address)
        }
        let counts: [UInt8] = [0, 1, 0, record.isEmpty ? 0 : 1, 0, 0, 0, 0]
        return query[0..<2] + [0x81, 0x80 | code] + counts + query[12..<end] + record
    }
}
