// SPDX-License-Identifier: Apache-2.0

/// A cache that machines share, in Redis: `cache.redis` of the configuration, with the contents of its secret files.
package struct RedisCacheConfiguration: Hashable, Sendable {
    package struct Address: Hashable, Sendable {
        /// The host in its normal form, as in a URL: IPv6 in brackets.
        package var host: String
        package var port: Int

        package init(host: String, port: Int) {
            self.host = host
            self.port = port
        }
    }

    /// Whether the servers are reached over TLS.
    package var isSecure: Bool
    /// The server; or Sentinels, or some servers of a cluster.
    package var addresses: [Address]
    /// The name of the primary that the Sentinels watch; nil where the addresses are no Sentinels.
    package var sentinel: String?
    package var isCluster = false
    /// The user of Redis' access list; nil for its default user.
    package var user: [UInt8]?
    package var password: [UInt8]?
    package var sentinelPassword: [UInt8]?
    /// The beginning of each key in Redis.
    package var prefix = Array("pinproxy:".utf8)
    /// The owner's secret, which names and seals what is stored. Empty until the loader has read its file.
    package var secret: [UInt8] = []
    /// For a look-up, and for each command.
    package var timeout = Milliseconds(5)
    /// Larger bodies are not stored in Redis.
    package var maximumBody = 1 << 20

    package init(isSecure: Bool, addresses: [Address]) {
        self.isSecure = isSecure
        self.addresses = addresses
    }

    /// The length of the owner's secret in bytes.
    static let secretLength = 32
    static let usualPort = 6379
    static let usualSentinelPort = 26379
    /// The number of addresses in a configuration.
    static let mostAddresses = 16
    static let timeoutRange = Milliseconds(1)...Milliseconds(1000)
    static let bodySizes = (1 << 10)...(16 << 20)
}

extension RedisCacheConfiguration: CustomStringConvertible, CustomReflectable {
    /// The servers and how they are asked, without secrets.
    package var description: String {
        let servers = addresses.map { "\($0.host):\($0.port)" }.joined(separator: ",")
        let kind = sentinel.map { ", Sentinels of \($0)" } ?? (isCluster ? ", a cluster" : "")
        let login = password == nil ? "" : ", with a password"
        return "\(isSecure ? "rediss" : "redis")://\(servers)\(kind)\(login)"
    }

    /// No dump of a configuration shows a secret.
    package var customMirror: Mirror { Mirror(self, children: ["redis": description]) }
}
