// SPDX-License-Identifier: Apache-2.0
/// An error reply that sends a command to another server.
enum ClusterRedirection: Hashable {
    /// From now on the slot is there.
    case moved(RedisAddress)
    /// This command alone goes there: the slot is on its way.
    case ask(RedisAddress)
    /// Another slot than the command's, or no address.
    case malformed

    /// - Returns: nil for other replies.
    init?(_ reply: RedisReply, slot: Int, from server: RedisAddress) {
        guard case .error(let text) = reply else { return nil }
        let isMoved = text.starts(with: "MOVED ".utf8)
        guard isMoved || text.starts(with: "ASK ".utf8) else { return nil }
        self = .malformed
        // A name has at most 255 bytes.
        guard text.count <= 300 else { return }
        let words = text.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard words.count == 3, words[1].elementsEqual("\(slot)".utf8),
            let colon = words[2].lastIndex(of: UInt8(ascii: ":")),
            let port = RedisAddress.port(words[2][(colon + 1)...])
        else { return }
        let name = words[2][..<colon]
        guard let address = RedisAddress(name: name.isEmpty ? Array(server.host.utf8) : Array(name), port: port) else {
            return
        }
        self = isMoved ? .moved(address) : .ask(address)
    }
}
