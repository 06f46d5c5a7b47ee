// SPDX-License-Identifier: Apache-2.0
import TestSupport

/// A client of Redis for tests, which writes and reads RESP2 itself, over TCP without TLS.
final class RedisClient {
    enum Reply: Equatable {
        case text([UInt8])
        case error(String)
        case integer(Int)
        case null
        case array([Reply])

        var bytes: [UInt8]? { if case .text(let bytes) = self { bytes } else { nil } }
        var string: String? { bytes.map { String(decoding: $0, as: UTF8.self) } }
        var elements: [Reply] { if case .array(let elements) = self { elements } else { [] } }
    }

    private let connection: TestClient
    private var buffer: [UInt8] = []
    private var position = 0

    init(port: UInt16, password: String? = nil) throws {
        connection = try TestClient(port: port)
        if let password { try command("AUTH", password) }
    }

    // MARK: Commands

    /// The reply to a command; errors are replies, too.
    func reply(to words: [[UInt8]]) throws -> Reply {
        var message = Array("*\(words.count)\r\n".utf8)
        for word in words { message += Array("$\(word.count)\r\n".utf8) + word + Array("\r\n".utf8) }
        try connection.send(message)
        return try read()
    }

    /// - Throws: when Redis says an error.
    @discardableResult
    func command(_ words: [[UInt8]]) throws -> Reply {
        let reply = try reply(to: words)
        if case .error(let message) = reply {
            let text = words.first.map { String(decoding: $0, as: UTF8.self) } ?? ""
            throw ChildProcess.Failure(description: "\(text): \(message)")
        }
        return reply
    }

    @discardableResult
    func command(_ words: String...) throws -> Reply { try command(words.map { Array($0.utf8) }) }

    // MARK: What is stored

    /// The keys of the URIs under a prefix, in any order.
    func hashes(_ prefix: String = SharedStage.prefix) throws -> Set<[UInt8]> {
        Set(try command("KEYS", "\(prefix){*}").elements.compactMap(\.bytes))
    }

    /// The fields of a hash.
    func hash(_ key: [UInt8]) throws -> [[UInt8]: [UInt8]] {
        let all = try command([Array("HGETALL".utf8), key]).elements.compactMap(\.bytes)
        return Dictionary(
            uniqueKeysWithValues: stride(from: 0, to: all.count - 1, by: 2).map { (all[$0], all[$0 + 1]) }
        )
    }

    func set(_ fields: [[UInt8]: [UInt8]], of key: [UInt8]) throws {
        guard !fields.isEmpty else { return }
        try command([Array("HSET".utf8), key] + fields.flatMap { [$0.key, $0.value] })
    }

    func delete(_ key: [UInt8]) throws { try command([Array("DEL".utf8), key]) }

    /// The number of calls of a command so far, by all clients, also of those that failed or were refused.
    func calls(_ name: String) throws -> Int {
        let text = try command("INFO", "commandstats").string ?? ""
        guard let line = text.split(separator: "\r\n").first(where: { $0.hasPrefix("cmdstat_\(name):") }) else {
            return 0
        }
        let counts = line.split(whereSeparator: { ":,".contains($0) }).compactMap { part -> Int? in
            part.hasPrefix("calls=") || part.hasPrefix("rejected_calls=")
                ? part.split(separator: "=").last.flatMap { Int($0) } : nil
        }
        return counts.reduce(0, +)
    }

    // MARK: RESP2

    private func read() throws -> Reply {
        let line = try readLine()
        let number = Int(String(decoding: line.dropFirst(), as: UTF8.self))
        switch line.first {
        case UInt8(ascii: "+"): return .text(Array(line.dropFirst()))
        case UInt8(ascii: "-"): return .error(String(decoding: line.dropFirst(), as: UTF8.self))
        case UInt8(ascii: ":"): return .integer(number ?? 0)
        case UInt8(ascii: "$"):
            guard let number, number >= 0 else { return .null }
            return .text(Array(try take(number + 2).dropLast(2)))
        case UInt8(ascii: "*"):
            guard let number, number >= 0 else { return .null }
            return .array(try (0..<number).map { _ in try read() })
        default: throw ChildProcess.Failure(description: "no RESP2: \(String(decoding: line, as: UTF8.self))")
        }
    }

    private func readLine() throws -> [UInt8] {
        while true {
            if let end = buffer[position...].firstIndex(of: UInt8(ascii: "\n")) {
                defer { position = end + 1 }
                return Array(buffer[position..<(end - 1)])
            }
            try more()
        }
    }

    private func take(_ count: Int) throws -> [UInt8] {
        while buffer.count - position < count { try more() }
        defer { position += count }
        return Array(buffer[position..<(position + count)])
    }

    private func more() throws {
        if position > 1 << 16 {
            buffer.removeFirst(position)
            position = 0
        }
        let bytes = try connection.receive()
        guard !bytes.isEmpty else { throw ChildProcess.Failure(description: "Redis has ended the connection") }
        buffer += bytes
    }
}
