// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

extension ConfigurationLoader {
    /// Reads the secret files of `cache.redis`. No issue shows what is in them.
    static func loadSharedCache(_ read: ConfigurationReader, into parts: inout PolicyParts) {
        guard let files = read.redis else { return }
        let secret = files.key.flatMap { element in
            element.secretContents("key").flatMap { RedisSecretFile.key($0, element) }
        }
        let password = files.password.flatMap { element in
            element.secretContents("password").flatMap { RedisSecretFile.password($0, element) }
        }
        let sentinelPassword = files.sentinelPassword.flatMap { element in
            element.secretContents("password").flatMap { RedisSecretFile.password($0, element) }
        }
        guard var redis = parts.configuration.cache?.redis else { return }
        redis.secret = secret ?? []
        redis.password = password
        redis.sentinelPassword = sentinelPassword
        parts.configuration.cache?.redis = redis
    }

    /// Reports servers that the pin files, or their absence, would never let it reach.
    static func checkSharedCache(_ read: ConfigurationReader, _ pinnedDomains: PinnedDomains) {
        guard let redis = read.configuration.cache?.redis, let url = read.redis?.url else { return }
        for address in redis.addresses {
            guard let host = try? Host(address.host) else { continue }
            let text = "\(address.host):\(address.port)"
            if !redis.isSecure, pinnedDomains.names(host) {
                url.report(
                    "a pin file names \(host), and such a host is never reached without TLS",
                    remedy: "write rediss://, or take the host out of the pin files"
                )
            } else if read.configuration.unpinnedHosts == .deny,
                !pinnedDomains.covers(host: host, port: UInt16(address.port))
            {
                url.report(
                    "unpinnedHosts is deny, and no pin file names \(text): it would never be asked",
                    remedy: redis.isSecure
                        ? "pin the host" : "write rediss:// and pin the host, or let unpinnedHosts be allow"
                )
            }
        }
    }
}

/// The contents of secret files for Redis.
private enum RedisSecretFile {
    /// The owner's key: 32 bytes in base64, on one line.
    static func key(_ bytes: [UInt8], _ element: DocumentElement) -> [UInt8]? {
        guard let key = Base64.decode(line(bytes)), key.count == RedisCacheConfiguration.secretLength else {
            element.report(
                "not a key: \(RedisCacheConfiguration.secretLength) random bytes in base64, on one line, are needed",
                remedy:
                    "make one for all machines that share the cache: openssl rand -base64 32 > FILE, and chmod 640 FILE"
            )
            return nil
        }
        return key
    }

    static func password(_ bytes: [UInt8], _ element: DocumentElement) -> [UInt8]? {
        let line = line(bytes)
        guard (1...512).contains(line.count), line.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
            element.report("does not hold a password", remedy: "let the file hold one line of 1 to 512 bytes")
            return nil
        }
        return line
    }

    /// The contents without the end of their line.
    private static func line(_ bytes: [UInt8]) -> [UInt8] {
        var line = bytes[...]
        if line.last == UInt8(ascii: "\n") { line.removeLast() }
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        return Array(line)
    }
}

extension DocumentElement {
    /// The contents of a secret's file; a file that everybody can read is a warning.
    fileprivate func secretContents(_ what: String) -> [UInt8]? {
        guard let path = path(), let bytes = fileContents() else { return nil }
        if FileContents.isReadableByEveryone(path) {
            warn("every user of this machine can read the \(what)", remedy: "chmod 640 \(path)")
        }
        return bytes
    }
}
