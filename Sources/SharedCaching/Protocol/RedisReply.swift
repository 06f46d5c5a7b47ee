// SPDX-License-Identifier: Apache-2.0
/// A value of a reply (RESP2). Error replies are values, too: the sender of the command decides about them.
enum RedisReply: Hashable, Sendable {
    case status([UInt8])
    case error([UInt8])
    case integer(Int)
    case bytes([UInt8])
    case null
    case array([RedisReply])
}

/// The reason why a command has no reply.
enum RedisFailure: Error, Hashable, Sendable {
    case timeout
    /// The connection was not possible, or broke; the text has no secret.
    case connection(String)
    /// The server's bytes are no RESP2, or too many.
    case malformed(String)
    /// The server does not let this client in, or does not serve: the first word of its error, as NOAUTH or LOADING.
    case refused(String)
    /// Too much is under way, or the breaker is open: nothing was sent.
    case busy
    case closed
}

typealias RedisResult = Result<RedisReply, RedisFailure>

extension RedisReply {
    /// The first word of an error reply, as MOVED; nil for other replies. The rest of its text is the server's, which may repeat a
    /// password, and is for no log: the word has at most 20 letters A to Z, and is "ERR" where the server's has not.
    var errorWord: String? {
        guard case .error(let text) = self else { return nil }
        let word = text.prefix { $0 != UInt8(ascii: " ") }
        guard (1...20).contains(word.count), word.allSatisfy({ (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) })
        else { return "ERR" }
        return String(decoding: word, as: UTF8.self)
    }
}
