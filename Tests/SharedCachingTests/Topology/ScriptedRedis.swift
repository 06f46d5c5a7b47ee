// SPDX-License-Identifier: Apache-2.0
import TestSupport

@testable import SharedCaching

/// A server on a socket of the loopback interface that replies as a test says, and writes down its commands.
final class TopologyScriptedRedis: Sendable {
    /// The bytes of a reply; empty for none, nil to end the connection.
    typealias Script = @Sendable (_ words: [String]) -> String?

    private struct State {
        var script: Script
        var commands: [[String]] = []
    }

    private let origin: ScriptedOrigin
    private let state: Monitor<State>

    init(_ script: @escaping Script) throws {
        let state = Monitor(State(script: script))
        self.state = state
        origin = try ScriptedOrigin(nil) { connection in
            var input: [UInt8] = []
            while case let bytes = connection.read(), !bytes.isEmpty {
                input += bytes
                while let words = Self.takeCommand(&input) {
                    let script = state.with { state in
                        state.commands.append(words)
                        return state.script
                    }
                    guard let reply = script(words) else { return }
                    if !reply.isEmpty { try connection.write(reply) }
                }
            }
        }
    }

    var address: RedisAddress { RedisAddress(host: "127.0.0.1", port: Int(origin.port)) }
    var commands: [[String]] { state.read(\.commands) }
    var connectionCount: Int { origin.connections.count }

    /// Replies otherwise from now on.
    func become(_ script: @escaping Script) { state.with { $0.script = script } }

    /// The names of the commands so far, with the key of those that have one.
    func count(of name: String) -> Int { commands.count { $0[0] == name } }

    private static func takeCommand(_ input: inout [UInt8]) -> [String]? {
        var position = 0
        func line() -> Int? {
            guard let end = input[position...].firstIndex(of: UInt8(ascii: "\n")) else { return nil }
            defer { position = end + 1 }
            return Int(String(decoding: input[(position + 1)..<(end - 1)], as: UTF8.self))
        }
        guard let count = line() else { return nil }
        var words: [String] = []
        for _ in 0..<count {
            guard let length = line(), input.count >= position + length + 2 else { return nil }
            words.append(String(decoding: input[position..<position + length], as: UTF8.self))
            position += length + 2
        }
        input.removeSubrange(..<position)
        return words
    }
}

/// Replies in bytes.
enum TopologyReply {
    static let ok = "+OK\r\n"
    static let primary = array(bulk("master"), ":0\r\n", "*0\r\n")
    static let replica = array(bulk("slave"), bulk("127.0.0.1"), ":6379\r\n", bulk("connected"), ":0\r\n")

    static func bulk(_ text: String) -> String { "$\(text.utf8.count)\r\n\(text)\r\n" }

    static func array(_ parts: String...) -> String { "*\(parts.count)\r\n" + parts.joined() }

    /// A Sentinel's reply.
    static func named(_ address: RedisAddress) -> String { array(bulk(address.host), bulk("\(address.port)")) }

    /// A range of CLUSTER SLOTS.
    static func range(_ first: Int, _ last: Int, _ host: String, _ port: Int) -> String {
        array(":\(first)\r\n", ":\(last)\r\n", array(bulk(host), ":\(port)\r\n", bulk("id")))
    }
}
