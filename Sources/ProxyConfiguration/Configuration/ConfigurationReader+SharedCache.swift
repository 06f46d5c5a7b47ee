// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

// `cache.redis`: a cache that machines share. Messages never repeat its URL, in which somebody may have written a password.

extension ConfigurationReader {
    mutating func readRedis(_ object: DocumentObject) -> RedisCacheConfiguration? {
        comment(object)
        let url = object.required("url")
        let sentinel = object["sentinel"]
        let cluster = object["cluster"]
        let isCluster = cluster?.bool() ?? false
        let keyFile = object.required("keyFile")
        let usualPort =
            sentinel == nil ? RedisCacheConfiguration.usualPort : RedisCacheConfiguration.usualSentinelPort
        var parts = url.flatMap { $0.redisURL(usualPort: usualPort) }
        if let sentinel { parts?.sentinel = readSentinel(sentinel) }
        parts?.isCluster = isCluster
        if sentinel != nil, isCluster {
            cluster?.report(
                "Sentinels watch one primary, and a cluster has several",
                remedy: "leave \"sentinel\" or \"cluster\""
            )
        } else if sentinel == nil, !isCluster, let url, let parts, parts.addresses.count > 1 {
            url.report(
                "several servers, and neither Sentinels nor a cluster",
                remedy: "write one server, or add \"sentinel\": \"mymaster\", or \"cluster\": true"
            )
        }
        let files = RedisFiles(
            url: url,
            key: keyFile.flatMap { $0.path() == nil ? nil : $0 },
            password: secret(object, "passwordFile"),
            sentinelPassword: secret(object, "sentinelPasswordFile")
        )
        readUser(object, into: &parts)
        if sentinel == nil {
            object["sentinelPasswordFile"]?.report(
                "a password for Sentinels, and there are none",
                remedy: "add \"sentinel\", or take this out"
            )
        }
        if let element = object["prefix"], let prefix = element.redisPrefix() { parts?.prefix = prefix }
        if let element = object["timeout"], let timeout = element.redisTimeout() { parts?.timeout = timeout }
        if let bytes = object["maximumBody"]?.size(in: RedisCacheConfiguration.bodySizes) { parts?.maximumBody = bytes }
        object.finish { key in
            ["password", "key", "secret", "sentinelPassword"].contains(key)
                ? "secrets do not belong into this file: name a file that has it (\"passwordFile\", \"keyFile\")" : nil
        }
        redis = files
        return parts
    }

    /// The element of a secret's file, if it names a path.
    private func secret(_ object: DocumentObject, _ key: String) -> DocumentElement? {
        guard let element = object[key], element.path() != nil else { return nil }
        return element
    }

    private func readSentinel(_ element: DocumentElement) -> String? {
        guard let name = element.string() else { return nil }
        if Self.isIdentifier(name) { return name }
        element.report(
            "not the name of a primary",
            remedy: "write the name that the Sentinels watch it by, as \"mymaster\" in \"sentinel monitor mymaster …\""
        )
        return nil
    }

    private func readUser(_ object: DocumentObject, into parts: inout RedisCacheConfiguration?) {
        guard let element = object["username"], let name = element.string() else { return }
        guard (1...128).contains(name.utf8.count), name.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            element.report(
                "not a user of Redis",
                remedy: "write a name of 1 to 128 visible ASCII characters, as in ACL SETUSER"
            )
            return
        }
        if !object.has("passwordFile") {
            element.report("a user without a password", remedy: "add \"passwordFile\", or take this out")
        }
        parts?.user = Array(name.utf8)
    }

    /// Checks the servers together with the access rules.
    func checkSharedCache(_ rules: AccessRules) {
        guard let parts = configuration.cache?.redis, let url = redis?.url else { return }
        for address in parts.addresses {
            guard let host = try? Host(address.host) else { continue }
            let verdict = rules.evaluate(host)
            if verdict != .allowed {
                url.report(
                    "the access rules deny \(host): \(rules.describe(verdict))",
                    remedy: "let access take it in, or take \"redis\" out"
                )
            } else if let literal = host.address,
                rules.evaluate(literal, port: UInt16(address.port)) == .deniedOwnListener
            {
                url.report("leads to one of pinproxy's own listeners", remedy: "name the address and port of Redis")
            }
        }
    }
}

extension DocumentElement {
    /// Reads `rediss://host:port,host:port`, or `redis` without TLS.
    fileprivate func redisURL(usualPort: Int) -> RedisCacheConfiguration? {
        guard let text = string() else { return nil }
        let example = "rediss://cache.example:6379"
        func refuse(_ message: String, _ remedy: String) -> RedisCacheConfiguration? {
            report(message, remedy: remedy)
            return nil
        }
        guard let schemeEnd = text.firstRange(of: "://") else {
            return refuse("not the URL of Redis", "write \(example); several servers with commas between them")
        }
        let isSecure: Bool
        switch text[..<schemeEnd.lowerBound].lowercased() {
        case "rediss": isSecure = true
        case "redis": isSecure = false
        default: return refuse("not the URL of Redis", "write rediss://… (TLS) or redis://… (without TLS)")
        }
        let rest = text[schemeEnd.upperBound...]
        guard !rest.contains("@") else {
            return refuse(
                "a user or password in the URL",
                "write \(example), the user as \"username\", and name the password's file in \"passwordFile\""
            )
        }
        guard !rest.contains(where: { "/?#".contains($0) }) else {
            return refuse(
                "more than scheme, hosts and ports",
                "write \(example); database 0 is used, and \"prefix\" keeps what others store apart"
            )
        }
        var addresses: [RedisCacheConfiguration.Address] = []
        for part in rest.split(separator: ",", omittingEmptySubsequences: false) {
            guard let address = redisAddress(part, usualPort) else { return nil }
            guard !addresses.contains(address) else {
                return refuse("\(address.host):\(address.port) stands here twice", "take one out")
            }
            addresses.append(address)
        }
        guard addresses.count <= RedisCacheConfiguration.mostAddresses else {
            return refuse(
                "\(addresses.count) servers",
                "write at most \(RedisCacheConfiguration.mostAddresses); the others are found through them"
            )
        }
        return RedisCacheConfiguration(isSecure: isSecure, addresses: addresses)
    }

    private func redisAddress(_ text: Substring, _ usualPort: Int) -> RedisCacheConfiguration.Address? {
        let literalEnd = text.hasPrefix("[") ? text.firstIndex(of: "]") ?? text.endIndex : text.startIndex
        var name = text
        var port = usualPort
        if let colon = text[literalEnd...].lastIndex(of: ":") {
            name = text[..<colon]
            guard let written = AddressAndPort.port(Array(text[colon...].dropFirst().utf8)[...]), written != 0 else {
                report("not a port", remedy: "write a port from 1 to 65535, or none for \(port)")
                return nil
            }
            port = Int(written)
        }
        do throws(HostFault) {
            let host = try Host(normalizing: Array(name.utf8).span)
            return RedisCacheConfiguration.Address(host: host.authorityText, port: port)
        } catch {
            report("not a host: \(error)", remedy: "write a name as in cache.example, or an IP address; IPv6 as [::1]")
            return nil
        }
    }

    fileprivate func redisPrefix() -> [UInt8]? {
        guard let text = string() else { return nil }
        let isPrefix = text.utf8.allSatisfy {
            ASCII.isUnreserved($0) && $0 != UInt8(ascii: "~") || $0 == UInt8(ascii: ":")
        }
        guard isPrefix, (1...64).contains(text.utf8.count) else {
            report("not a prefix", remedy: "write 1 to 64 letters, digits, \"-\", \".\", \"_\" or \":\"")
            return nil
        }
        return Array(text.utf8)
    }

    fileprivate func redisTimeout() -> Milliseconds? {
        guard let timeout = duration() else { return nil }
        let range = RedisCacheConfiguration.timeoutRange
        guard range.contains(timeout) else {
            report(
                "\(timeout) is too long for a look-up, which a request waits for",
                remedy: "write \(range.lowerBound) to \(range.upperBound)"
            )
            return nil
        }
        return timeout
    }
}
