// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

extension ConfigurationReader {
    mutating func readDefaults(_ object: DocumentObject) {
        comment(object)
        if let flag = object.bool("rewriteUpgraded") { configuration.defaults.rewriteUpgraded = flag }
        if let policy = object["via"]?.choice(ViaPolicy.self) { configuration.defaults.via = policy }
        if let profile = object["tlsProfile"]?.choice(TLSProfile.self) { configuration.defaults.tlsProfile = profile }
        if let count = readConnectionsPerHost(object) { configuration.defaults.connectionsPerHost = count }
        if let object = object.object("timeouts") {
            readTimeouts(object, into: &configuration.defaults.timeouts, ofHost: false)
        }
        readHooks(object, into: &configuration.defaults, ofHost: false)
        if let policy = readConnect(object) {
            configuration.defaults.connect = policy
            if policy == .intercept, let element = object["connect"] {
                intercepted.append(Placed(value: configuration.defaults, element: element))
            }
        }
        for (name, element) in object.entries where Self.keysOfHostsAlone.contains(name) {
            _ = object[name]
            element.report("\"\(name)\" is said for a host", remedy: "put it into the entries of hosts that it is for")
        }
        for (name, element) in object.entries where name == "upstreamProxy" {
            _ = object[name]
            element.report("the proxy for all hosts is said at the top", remedy: "put it there, beside \"defaults\"")
        }
        object.finish()
    }

    private static let keysOfHostsAlone = [
        "browsers", "includeSubdomains", "upgrade", "httpVersion", "resolve", "tlsServerName",
    ]

    mutating func readHosts(_ object: DocumentObject) {
        var places: [Host: String] = [:]
        for (name, element) in object.entries {
            guard let host = HostName.read(name, on: element) else {
                // The entry's contents are checked nevertheless.
                if let object = element.object() { _ = readHost(object, HostConfiguration()) }
                continue
            }
            if let first = places[host] {
                element.report(
                    "the host \(host) has an entry already, at \(first)",
                    remedy: "put both into one; case, a trailing dot and the A-label form make no difference"
                )
            } else {
                places[host] = element.pointer
            }
            guard let object = element.object() else { continue }
            let entry = readHost(object, HostConfiguration(host: host, over: configuration.defaults))
            if places[host] == element.pointer { hosts.append(Placed(value: entry, element: element)) }
        }
        configuration.hosts = hosts.map(\.value)
    }

    private mutating func readHost(_ object: DocumentObject, _ start: HostConfiguration) -> HostConfiguration {
        comment(object)
        var entry = start
        if let element = object["includeSubdomains"], let flag = element.bool() {
            entry.includeSubdomains = flag
            if flag, let host = entry.host, host.kind != .name {
                element.report("nothing lies below an IP address", remedy: "take it out")
            }
        }
        if let flag = object.bool("rewriteUpgraded") { entry.rewriteUpgraded = flag }
        if let policy = object["via"]?.choice(ViaPolicy.self) { entry.via = policy }
        if let flag = object.bool("browsers") { entry.browsers = flag }
        if let version = object["httpVersion"]?.choice(OriginHTTPVersion.self) { entry.httpVersion = version }
        if let element = object["resolve"], let address = element.addressAndPort(allowsFreePort: false) {
            entry.resolve = address
            resolves.append(Placed(value: address, element: element))
        }
        if let profile = object["tlsProfile"]?.choice(TLSProfile.self) { entry.tlsProfile = profile }
        if let element = object["tlsServerName"], let text = element.string(),
            let name = HostName.read(text, on: element)
        {
            entry.tlsServerName = name
            serverNames.append(Placed(value: entry, element: element))
        }
        if let count = readConnectionsPerHost(object) { entry.connectionsPerHost = count }
        if let object = object.object("timeouts") { readTimeouts(object, into: &entry.timeouts, ofHost: true) }
        if let element = object["upgrade"], let flag = element.bool() {
            entry.upgrade = flag
            if !flag { refusedUpgrades.append(Placed(value: entry, element: element)) }
        }
        readHooks(object, into: &entry, ofHost: true)
        if let element = object["headers"], entry.headers.request.givesCredentials {
            givenCredentials.append(Placed(value: entry, element: element))
        }
        if let policy = readConnect(object), let element = object["connect"] {
            entry.connect = policy
            if policy == .tunnel { tunnels.append(Placed(value: entry, element: element)) }
            if policy == .intercept { intercepted.append(Placed(value: entry, element: element)) }
        }
        if let element = object["upstreamProxy"] {
            switch readUpstreamProxy(element) {
            case .proxy(let proxy): entry.upstreamProxy = proxy
            case .direct: entry.upstreamProxy = nil
            case nil: break
            }
        }
        object.finish()
        return entry
    }

    private func readConnectionsPerHost(_ object: DocumentObject) -> Int? {
        object.int("connectionsPerHost", in: 1...65_535)
    }

    /// Reads the hooks of a host's entry, which replace those of the defaults key by key.
    private func readHooks(_ object: DocumentObject, into entry: inout HostConfiguration, ofHost: Bool) {
        if let object = object.object("redirects") { entry.redirects = readRedirects(object) }
        if let object = object.object("responses") { entry.responses = readResponses(object) }
        if let object = object.object("headers") { entry.headers = readHeaders(object, ofHost: ofHost) }
        if let object = object.object("cache") { entry.cache = readCacheRules(object) }
    }

    private func readConnect(_ object: DocumentObject) -> ConnectPolicy? {
        object["connect"]?.choice(ConnectPolicy.self)
    }

    private func readTimeouts(_ object: DocumentObject, into timeouts: inout Timeouts, ofHost: Bool) {
        comment(object)
        if let value = object["connect"]?.duration() { timeouts.connect = value }
        if let value = object["queue"]?.duration() { timeouts.queue = value }
        if let value = object["firstByte"]?.duration() { timeouts.firstByte = value }
        if let value = object["stall"]?.duration() { timeouts.stall = value }
        if let value = object["total"]?.duration() { timeouts.total = value }
        if ofHost {
            for (name, element) in object.entries where ["head", "body", "idle", "drain"].contains(name) {
                _ = object[name]
                element.report(
                    "\"\(name)\" concerns the client's connection, whatever host it asks for",
                    remedy: "put it into defaults"
                )
            }
        } else {
            if let value = object["head"]?.duration() { timeouts.head = value }
            if let value = object["body"]?.duration() { timeouts.body = value }
            if let value = object["idle"]?.duration() { timeouts.idle = value }
            if let value = object["drain"]?.duration() { timeouts.drain = value }
        }
        object.finish()
    }
}
