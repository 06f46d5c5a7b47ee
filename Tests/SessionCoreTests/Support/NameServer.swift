// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport

/// A name server on a port of 127.0.0.1, over UDP and TCP.
final class NameServer: Sendable {
    enum Response: Sendable {
        /// For A; AAAA has no address.
        case address(UInt32, lifetime: UInt32)
        /// For A, in that order; AAAA has no address.
        case addresses([UInt32], lifetime: UInt32)
        /// For A; AAAA gets no response.
        case addressAndSilence(UInt32, lifetime: UInt32)
        /// ::1 for AAAA; A gets no response.
        case silenceAndLoopback
        /// For A, so many times; over UDP the response is cut (RFC 1035, section 4.2.1). AAAA has no address.
        case addressOverTCP(UInt32, times: UInt8)
        /// So many addresses of each family, all different; over UDP the response is cut.
        case addressesOverTCP(ipv4: Int, ipv6: Int)
        case noSuchName
        /// For A; AAAA gets no response.
        case noSuchNameAndSilence
        /// For A; AAAA has ::1, which comes after the response for A, with that to the query for another name.
        case noSuchNameAndLateLoopback
        case serverFailure
        case silence
    }

    let port: UInt16
    private let descriptor: Int32
    private let listener: Int32
    /// The questions for A, in their order.
    private let asked = Monitor<[String]>([])
    private let ended = DispatchSemaphore(value: 0)

    /// As `SessionConfiguration.nameServers`.
    var text: String { "127.0.0.1:\(port)" }
    var questions: [String] { asked.with { $0 } }

    /// - Parameter answers: asked with the number of earlier questions for the name.
    init(_ answers: @escaping @Sendable (_ name: String, _ count: Int) -> Response) throws {
        let (listener, descriptor, port) = try TestSocket.listenWithDatagrams()
        self.descriptor = descriptor
        self.listener = listener
        self.port = port
        Thread.detachNewThread { [asked] in Self.serveOverTCP(listener, answers, asked) }
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
        shutdown(listener, Int32(SHUT_RDWR))
    }

    private static func serveOverTCP(
        _ listener: Int32,
        _ answers: (String, Int) -> Response,
        _ asked: Monitor<[String]>
    ) {
        while true {
            let client = accept(listener, nil, nil)
            guard client >= 0 else { break }
            TestSocket.setTimeouts(client)
            func read(_ count: Int) -> [UInt8]? {
                var bytes = [UInt8](repeating: 0, count: count)
                return recv(client, &bytes, count, Int32(MSG_WAITALL)) == count ? bytes : nil
            }
            var isLate = false
            while let length = read(2), let query = read(Int(length[0]) << 8 + Int(length[1])),
                let reply = reply(query, answers, asked, isCut: false, &isLate)
            {
                let framed = [UInt8(reply.count >> 8), UInt8(reply.count & 0xFF)] + reply
                send(client, framed, framed.count, 0)
            }
            close(client)
        }
        close(listener)
    }

    private static func serve(
        _ descriptor: Int32,
        _ answers: (String, Int) -> Response,
        _ asked: Monitor<[String]>
    ) {
        var buffer = [UInt8](repeating: 0, count: 1500)
        // Responses that are held back, until so many others have gone out.
        var late: (reply: [UInt8], others: Int)?
        while true {
            var peer = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let count = withUnsafeMutablePointer(to: &peer) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    recvfrom(descriptor, &buffer, buffer.count, 0, $0, &length)
                }
            }
            guard count > 0 else { return }
            var isLate = false
            guard let reply = reply(Array(buffer[..<count]), answers, asked, isCut: true, &isLate) else { continue }
            if isLate {
                late = (reply, 0)
                continue
            }
            let isDue = late?.others == 1
            for reply in isDue ? [late?.reply, reply].compactMap({ $0 }) : [reply] {
                _ = withUnsafePointer(to: &peer) { pointer in
                    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        sendto(descriptor, reply, reply.count, 0, $0, length)
                    }
                }
            }
            late?.others += 1
            if isDue { late = nil }
        }
    }

    private static func reply(
        _ query: [UInt8],
        _ answers: (String, Int) -> Response,
        _ asked: Monitor<[String]>,
        isCut: Bool,
        _ isLate: inout Bool
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
        var flags: UInt8 = 0x81
        var record: [UInt8] = []
        var count = 1
        func bytes(_ number: UInt32) -> [UInt8] {
            (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }
        }
        func address(_ address: UInt32, _ lifetime: UInt32) -> [UInt8] {
            [0xC0, 12, 0, 1, 0, 1] + bytes(lifetime) + [0, 4] + bytes(address)
        }
        let loopback = [0xC0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16] + [UInt8](repeating: 0, count: 15) + [1]
        let response = answers(name, earlier)
        switch response {
        case .silence: return nil
        case .noSuchName: code = 3
        case .noSuchNameAndSilence:
            guard isIPv4 else { return nil }
            code = 3
        case .noSuchNameAndLateLoopback where isIPv4: code = 3
        case .serverFailure: code = 2
        case .silenceAndLoopback:
            if isIPv4 { return nil }
            record = loopback
        case .noSuchNameAndLateLoopback:
            isLate = true
            record = loopback
        case .addressOverTCP(let number, let times):
            guard isIPv4 else { break }
            if isCut {
                flags |= 2
                break
            }
            count = Int(times)
            record = (0..<times).flatMap { _ in address(number, 60) }
        case .addressesOverTCP(let ipv4, let ipv6):
            if isCut {
                flags |= 2
                break
            }
            count = isIPv4 ? ipv4 : ipv6
            record = (0..<UInt32(count)).flatMap { index in
                isIPv4
                    ? address(0x0A00_0000 + index, 60)
                    : [0xC0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16, 0xFD] + [UInt8](repeating: 0, count: 11)
                        + bytes(index)
            }
        case .addresses(let numbers, let lifetime):
            guard isIPv4 else { break }
            count = numbers.count
            record = numbers.flatMap { address($0, lifetime) }
        case .addressAndSilence(let number, let lifetime), .address(let number, let lifetime):
            guard isIPv4 else {
                if case .addressAndSilence = response { return nil }
                break
            }
            record = address(number, lifetime)
        }
        let answers = record.isEmpty ? 0 : count
        let counts: [UInt8] = [0, 1, UInt8(answers >> 8), UInt8(answers & 0xFF), 0, 0, 0, 0]
        return query[0..<2] + [flags, 0x80 | code] + counts + query[12..<end] + record
    }
}
