// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// A proxy that tunnels all connections to one port, and records the requests.
package final class TunnelProxy: Sendable {
    package let port: UInt16
    /// The head of each CONNECT; for SOCKS the name and port.
    package let asked = Monitor<[String]>([])
    /// The greeting of each SOCKS client, with the methods that it offers.
    package let greetings = Monitor<[[UInt8]]>([])
    /// The bytes through the tunnels, in both directions.
    package let seen = Monitor<[UInt8]>([])
    private let listener: Int32

    /// - Parameters:
    ///   - response: the response to each CONNECT; a tunnel is made when it is a 200.
    ///   - listening: a listening socket to take over; nil makes one.
    package init(
        to origin: UInt16,
        isSOCKS: Bool = false,
        response: String = "HTTP/1.1 200 OK\r\nX-Proxy: a\r\n\r\n",
        on listening: (descriptor: Int32, port: UInt16)? = nil
    ) throws {
        let listening = try listening ?? TestSocket.listen()
        listener = listening.descriptor
        port = listening.port
        let listener = listener
        let asked = asked
        let seen = seen
        let greetings = greetings
        Thread.detachNewThread {
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { break }
                TestSocket.setTimeouts(client)
                Thread.detachNewThread {
                    Self.serve(client, origin, isSOCKS, response, asked, greetings, seen)
                    close(client)
                }
            }
            close(listener)
        }
    }

    deinit { shutdown(listener, Int32(SHUT_RDWR)) }

    private static func serve(
        _ client: Int32,
        _ origin: UInt16,
        _ isSOCKS: Bool,
        _ response: String,
        _ asked: Monitor<[String]>,
        _ greetings: Monitor<[[UInt8]]>,
        _ seen: Monitor<[UInt8]>
    ) {
        if isSOCKS {
            let start = read(client, 2)
            let methods = read(client, Int(start.last ?? 0))
            guard !methods.isEmpty else { return }
            greetings.with { $0.append(start + methods) }
            write(client, [5, 0])
            guard let length = read(client, 5).last else { return }
            let name = read(client, Int(length) + 2)
            let place = String(decoding: name.dropLast(2), as: UTF8.self)
            asked.with { $0.append("\(place):\(Int(name[name.count - 2]) << 8 + Int(name[name.count - 1]))") }
            write(client, [5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
        } else {
            var head: [UInt8] = []
            while !head.suffix(4).elementsEqual("\r\n\r\n".utf8) {
                let byte = read(client, 1)
                guard !byte.isEmpty else { return }
                head += byte
            }
            asked.with { $0.append(String(decoding: head, as: UTF8.self)) }
            write(client, Array(response.utf8))
            guard response.contains(" 200 ") else { return }
        }
        guard let server = try? TestSocket.connect(port: origin) else { return }
        let isUpOver = Gate()
        Thread.detachNewThread {
            copy(from: client, to: server, seen)
            isUpOver.open()
        }
        copy(from: server, to: client, seen)
        shutdown(client, Int32(SHUT_RDWR))
        shutdown(server, Int32(SHUT_RDWR))
        try? isUpOver.pass()
        close(server)
    }

    private static func read(_ descriptor: Int32, _ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let got = recv(descriptor, &bytes, count, Int32(MSG_WAITALL))
        return got == count ? bytes : []
    }

    private static func write(_ descriptor: Int32, _ bytes: [UInt8]) {
        _ = send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    private static func copy(from source: Int32, to target: Int32, _ seen: Monitor<[UInt8]>) {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = recv(source, &buffer, buffer.count, 0)
            guard count > 0 else { break }
            seen.with { $0 += buffer[..<count] }
            write(target, Array(buffer[..<count]))
        }
        shutdown(target, Int32(SHUT_WR))
    }
}
