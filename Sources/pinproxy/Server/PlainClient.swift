// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import IOCore

/// A minimal HTTP client without TLS and pins. It sends the demo's proxy the same as any client with `http_proxy`, and
/// an admin listener the same as a probe.
enum PlainClient {
    struct Response {
        var head: [String]
        var body: String
        var statusLine: String { head.first ?? "" }
        /// The status code; 0 when there is none.
        var status: Int { statusLine.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0 }

        func field(_ name: String) -> String? {
            let prefix = name.lowercased() + ":"
            return head.first { $0.lowercased().hasPrefix(prefix) }.map { line in
                String(line.dropFirst(prefix.count).drop { $0 == " " })
            }
        }
    }

    /// Sends one GET in absolute form through the proxy and reads to the end of the connection.
    static func get(host: String, path: String, proxy: SocketAddress) throws(IOFailure) -> Response {
        try send("GET", "http://\(host)\(path)", host: host, at: proxy, patience: .seconds(20))
    }

    /// Sends one request without a body and reads to the end of the connection.
    ///
    /// - Parameter patience: the time limit for everything together.
    static func send(
        _ method: String,
        _ target: String,
        host: String,
        fields: [String] = [],
        at address: SocketAddress,
        patience: Duration
    ) throws(IOFailure) -> Response {
        let deadline = Clock.monotonic + UInt64(max(0, patience / .nanoseconds(1)))
        let family =
            switch address.family {
            case .ipv4: AF_INET
            case .ipv6: AF_INET6
            case .unix: AF_UNIX
            }
        let descriptor = pinproxy_stream_socket(family)
        guard descriptor >= 0 else { throw IOFailure(code: -descriptor, during: "socket") }
        let socket = StreamSocket(adopting: descriptor)
        // Non-blocking: the connection is established when the socket is writable.
        let code = address.withSockaddr { connect(descriptor, $0, $1) == 0 ? 0 : errno } ?? ENAMETOOLONG
        guard code == 0 || code == EINPROGRESS else { throw IOFailure(code: code, during: "connect") }
        var request = ByteBuffer()
        let lines = ["\(method) \(target) HTTP/1.1", "Host: \(host)", "Connection: close"] + fields
        request.append(text: lines.joined(separator: "\r\n") + "\r\n\r\n")
        while !request.isEmpty {
            try wait(descriptor, POLLOUT, during: "connect", until: deadline)
            if case .failed(let failure) = socket.write(from: &request) { throw failure }
        }
        var response = ByteBuffer()
        reading: while true {
            switch socket.read(into: &response, upTo: 16 << 10) {
            case .bytes: continue
            case .wouldBlock: try wait(descriptor, POLLIN, during: "read", until: deadline)
            case .end: break reading
            case .failed(let failure): throw failure
            }
        }
        return parse(response.withUnsafeBytes { String(decoding: $0, as: UTF8.self) })
    }

    private static func wait(
        _ descriptor: Int32,
        _ event: Int32,
        during call: StaticString,
        until deadline: UInt64
    ) throws(IOFailure) {
        var waiting = pollfd(fd: descriptor, events: Int16(event), revents: 0)
        let now = Clock.monotonic
        let rest = deadline > now ? Int32(clamping: (deadline - now + 999_999) / 1_000_000) : 0
        guard poll(&waiting, 1, rest) > 0 else { throw IOFailure(code: ETIMEDOUT, during: call) }
    }

    private static func parse(_ text: String) -> Response {
        // A CRLF is one Character.
        let lines = text.split(separator: "\r\n", omittingEmptySubsequences: false)
        let end = lines.firstIndex(of: "") ?? lines.endIndex
        return Response(
            head: lines[..<end].map(String.init),
            body: lines[min(end + 1, lines.endIndex)...].joined(separator: "\r\n")
        )
    }
}
