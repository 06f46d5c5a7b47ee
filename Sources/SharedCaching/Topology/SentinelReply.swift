// SPDX-License-Identifier: Apache-2.0
/// What Sentinels and the servers behind them say. All of it comes from outside.
enum SentinelReply {
    /// The address in a reply to SENTINEL get-master-addr-by-name; nil when the name is unknown or the reply is no address.
    static func address(_ reply: RedisReply) -> RedisAddress? {
        guard case .array(let parts) = reply, parts.count == 2, case .bytes(let name) = parts[0],
            case .bytes(let digits) = parts[1], let port = RedisAddress.port(digits)
        else { return nil }
        return RedisAddress(name: name, port: port)
    }

    /// Whether a reply to ROLE is that of a primary.
    static func isPrimary(_ reply: RedisReply) -> Bool {
        guard case .array(let parts) = reply, case .bytes(let role)? = parts.first else { return false }
        return role.elementsEqual("master".utf8)
    }
}
