// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import ServerTrust
import SessionCore
package import StrictJSON

/// The settings that apply to each host in the configuration or a pin file, for people: the output of `pinproxy check`.
package struct EffectivePolicy: Sendable, CustomStringConvertible {
    package struct Row: Hashable, Sendable {
        package var label: String
        package var text: String
    }

    package struct Section: Hashable, Sendable {
        package var title: String
        package var rows: [Row]

        /// The object in `GET /config` and in the output of `pinproxy check --json`.
        package var json: JSONLine {
            var line = JSONLine()
            line.add("title", title)
            let rows = rows.map { row in
                var line = JSONLine()
                line.add("label", row.label)
                line.add("text", row.text)
                return line.object
            }
            line.add("rows", array: rows)
            return line
        }
    }

    /// The listeners, the settings of the process, the settings for all hosts, the rules about requests, the
    /// credentials, then one section for each host, sorted by name.
    package let sections: [Section]

    package init(_ snapshot: PolicySnapshot) {
        let entries = snapshot.configuration.hosts.compactMap(\.host)
        let hosts = Set(entries).union(snapshot.pinnedDomains.domains.map(\.host))
        let sorted = hosts.sorted { $0.description < $1.description }
        sections =
            [Self.listeners(snapshot), Self.process(snapshot.configuration), Self.others(snapshot)]
            + (snapshot.configuration.requests.map { [Self.requests($0)] } ?? [])
            + (snapshot.configuration.credentials.isEmpty ? [] : [Self.credentials(snapshot.configuration)])
            + sorted.map { Self.host($0, snapshot) }
    }

    /// One line for each row; the texts of a section share a column.
    package var description: String {
        sections.map { section in
            let width = section.rows.map(\.label.count).max() ?? 0
            let lines = section.rows.map { row in
                "  \(row.label)\(String(repeating: " ", count: width - row.label.count))  \(row.text)\n"
            }
            return section.title + "\n" + lines.joined()
        }.joined(separator: "\n")
    }

    private static func listeners(_ snapshot: PolicySnapshot) -> Section {
        var rows = snapshot.configuration.listeners.map { listener in
            var text = listener.endpoint.description
            if let upstream = listener.upstream {
                text += " to https://\(upstream.host.authorityText(port: upstream.port))"
            }
            if listener.mode == .transparent {
                text +=
                    listener.originalDestination == .verify
                    ? ", dials the address that the client has connected to, if it is the host's"
                    : ", looks up the host that the client names"
            }
            if let tls = listener.tls {
                text += tls.clientCA == nil ? ", TLS" : ", TLS with client certificates"
                if !tls.crlFiles.isEmpty { text += " that are checked against revocation lists" }
            }
            if let demanded = snapshot.configuration.authentication(of: listener) {
                text += ", clients authenticate by " + ways(listener.waysOpen(of: demanded)).joined(separator: " or ")
            }
            if listener.http2 { text += ", HTTP/2 too" }
            if listener.allowRemoteClients { text += ", remote clients allowed" }
            return Row(label: listener.mode.rawValue, text: text)
        }
        if let admin = snapshot.configuration.admin {
            let reach = admin.allowRemoteClients ? ", remote clients allowed" : ""
            let token = admin.tokenFile == nil ? "" : admin.isRemote ? ", token needed" : ", token needed for changes"
            rows.append(Row(label: "admin", text: "\(admin.endpoint)\(reach)\(token)"))
        }
        return Section(title: "listeners", rows: rows)
    }

    /// Where each comes from and goes to; never a value, nor an argument of a command.
    private static func credentials(_ configuration: Configuration) -> Section {
        let rows = configuration.credentials.map { credential in
            let form =
                credential.basicUser.map { "Basic with the user \($0)" }
                ?? (credential.source.scope == nil ? credential.header : "a signature")
            var texts = ["\(form) from \(source(credential.source))"]
            if let ttl = credential.ttl { texts.append("for \(ttl)") }
            if credential.placeholder != nil { texts.append("for clients with its placeholder") }
            if credential.allowUnpinned { texts.append("unpinned hosts too") }
            let rules =
                configuration.requests?.rules.filter { $0.credentials.contains(credential.name) }.map(\.id) ?? []
            texts.append(rules.isEmpty ? "in no rule" : "in the rules " + rules.joined(separator: ", "))
            return Row(label: credential.name, text: texts.joined(separator: ", "))
        }
        return Section(title: "credentials", rows: rows)
    }

    private static func source(_ source: CredentialSource) -> String {
        switch source {
        case .file(let path): return "the file \(path)"
        case .env(let name): return "the variable \(name)"
        case .command(let words): return "the command \(words[0])"
        case .oauth2(let client): return "\(client.tokenURL.origin)"
        case .awsSigV4(let source):
            let keys =
                switch source.keys {
                case .file(let path): "the file \(path)"
                case .command(let words): "the command \(words[0])"
                }
            return "keys of \(keys) for \(source.scope.service) in \(source.scope.region)"
        }
    }

    private static func requests(_ requests: RequestsConfiguration) -> Section {
        let rest =
            switch requests.policy {
            case .deny: "denied"
            case .report: "sent, and logged as one that would be denied"
            case .allow: "sent"
            }
        return Section(
            title: "requests",
            rows: requests.rules.map { Row(label: $0.id, text: "\($0.action.rawValue): \($0.conditions)") }
                + [Row(label: "all others", text: rest)]
        )
    }

    private static func ways(_ open: AuthenticationConfiguration) -> [String] {
        [
            (open.basicFile != nil, "password"), (open.bearerFile != nil, "token"),
            (open.knowsProcesses, "user of this machine"), (open.clientCertificates, "certificate"),
        ].compactMap { $0 ? $1 : nil }
    }

    private static func others(_ snapshot: PolicySnapshot) -> Section {
        let configuration = snapshot.configuration
        let unpinned =
            switch configuration.unpinnedHosts {
            case .allow: "allowed; over TLS, chain and host are checked"
            case .deny: "denied"
            }
        func list(_ texts: [String], none: String) -> String { texts.isEmpty ? none : texts.joined(separator: ", ") }
        let access = configuration.access
        let proxy =
            configuration.defaults.upstreamProxy.map { [Row(label: "upstream proxy", text: text($0, snapshot))] } ?? []
        let names =
            configuration.resolver == .system ? [Row(label: "names", text: "looked up by the system's resolver")] : []
        let added = configuration.defaults.via == .on ? [] : [Row(label: "Via", text: via(configuration.defaults.via))]
        let profile = configuration.defaults.tlsProfile
        let suites = profile == .modern ? [] : [Row(label: "tlsProfile", text: text(profile))]
        return Section(
            title: "all hosts",
            rows: proxy + names + added + suites + [
                Row(label: "unpinned hosts", text: unpinned),
                Row(label: "anchors", text: anchors(configuration.trustAnchors)),
                Row(label: "allowed hosts", text: list(access.allowHosts.map(\.description), none: "none")),
                Row(label: "denied hosts", text: list(access.denyHosts.map(\.description), none: "none")),
                Row(label: "denied addresses", text: list(access.denyAddresses.map(\.description), none: "none")),
                Row(label: "CONNECT", text: connect(configuration.defaults.connect, access)),
                Row(label: "httpVersion", text: version(configuration.defaults.httpVersion)),
                Row(label: "timeouts", text: text(configuration.defaults.timeouts)),
            ] + cache(configuration.cache) + hooks(configuration.defaults)
        )
    }

    private static func text(_ profile: TLSProfile) -> String {
        switch profile {
        case .modern: "modern: ECDHE with AES-GCM or ChaCha20"
        case .compatible: "compatible: with RSA key exchange (no forward secrecy) and AES-CBC"
        case .legacy: "legacy: with RSA key exchange (no forward secrecy), AES-CBC and DHE"
        }
    }

    private static func via(_ policy: ViaPolicy) -> String {
        switch policy {
        case .on: "added"
        case .off: "not added, unless the request has one already"
        }
    }

    private static func connect(_ policy: ConnectPolicy, _ access: AccessConfiguration) -> String {
        switch policy {
        case .deny: return "denied, with the alternatives in the response"
        case .tunnel:
            let ports = access.connectPorts.map(String.init).joined(separator: ", ")
            return ports.isEmpty
                ? "denied: access.connectPorts is empty" : "tunnelled to unpinned hosts, ports \(ports)"
        case .intercept:
            let ports = access.connectPorts.map(String.init).joined(separator: ", ")
            let plain = "port 80: plain http requests"
            return ports.isEmpty ? plain : "intercepted with the local CA, ports \(ports); \(plain)"
        }
    }

    private static func text(_ proxy: UpstreamProxyConfiguration, _ snapshot: PolicySnapshot) -> String {
        guard proxy.kind == .https else { return proxy.account }
        let hasPins = snapshot.pinnedDomains.policy(host: proxy.host, port: proxy.port)?.hasPins ?? false
        return "\(proxy.account); \(hasPins ? "pinned" : "not pinned: chain and host are checked")"
    }

    private static func anchors(_ configuration: TrustAnchorsConfiguration) -> String {
        let system = configuration.system ? ["system"] : []
        let all = system + configuration.files
        return all.isEmpty ? "none" : all.joined(separator: ", ")
    }

    // MARK: - A host

    private static func host(_ host: Host, _ snapshot: PolicySnapshot) -> Section {
        let configuration = snapshot.configuration
        let entry = snapshot.policy(for: host).configuration
        let domain = snapshot.pinnedDomains.domain(governing: host)
        var rows: [Row] = []
        func row(_ label: String, _ text: String) { rows.append(Row(label: label, text: text)) }

        row("upgrade", upgrade(host, entry, snapshot))
        if let domain, let policy = domain.policy {
            rows += pinning(policy, domain, host, snapshot.configuration.unpinnedHosts)
        } else if domain != nil {
            row("pinning", "excluded from the policy of its parent: chain and host are checked")
        } else {
            let isDenied = snapshot.configuration.unpinnedHosts == .deny
            row("pinning", isDenied ? "not pinned: denied" : "not pinned: chain and host are checked")
        }
        row("anchors", anchors(of: domain?.policy, snapshot))
        if entry.connect != .deny {
            let isRefused = snapshot.isNamed(host) && entry.connect == .tunnel
            let text =
                isRefused ? "denied: a pinned host is never tunnelled" : connect(entry.connect, configuration.access)
            row("CONNECT", text)
        }
        if entry.browsers { row("browsers", "pages of other sites may use the host's gateways") }
        row("includeSubdomains", subdomains(host, entry, domain))
        if let resolve = entry.resolve { row("resolve", resolve.description) }
        if let name = entry.tlsServerName { row("tlsServerName", "\(name): asked for, and checked in the certificate") }
        if entry.tlsProfile != configuration.defaults.tlsProfile { row("tlsProfile", text(entry.tlsProfile)) }
        if entry.upstreamProxy != configuration.defaults.upstreamProxy {
            row("upstream proxy", entry.upstreamProxy.map { text($0, snapshot) } ?? "none")
        }
        row("httpVersion", version(entry.httpVersion))
        if entry.via != configuration.defaults.via { row("Via", via(entry.via)) }
        if entry.timeouts != configuration.defaults.timeouts { row("timeouts", text(entry.timeouts)) }
        if let count = entry.connectionsPerHost { row("connectionsPerHost", "\(count)") }
        rows += hooks(entry)
        let verdict = snapshot.access.evaluate(host)
        if verdict != .allowed { row("access", "denied: \(snapshot.access.describe(verdict))") }
        return Section(title: host.description, rows: rows)
    }

    private static func upgrade(_ host: Host, _ entry: HostConfiguration, _ snapshot: PolicySnapshot) -> String {
        let rewritten = entry.rewriteUpgraded ? "" : "; responses are not rewritten"
        if snapshot.isNamed(host) { return "always: a pin file names the host\(rewritten)" }
        return entry.upgrade ? "yes\(rewritten)" : "no: http:// goes out without TLS"
    }

    private static func pinning(
        _ policy: SecurityPolicy,
        _ domain: PinnedDomains.Domain,
        _ host: Host,
        _ unpinnedHosts: UnpinnedHosts
    ) -> [Row] {
        let configuration = policy.configuration
        var rows: [Row] = []
        var mode = configuration.pinningMode.rawValue
        if policy.isUnverified {
            mode += ": UNVERIFIED, servers may pass unidentified"
        } else if configuration.pinningMode == .none {
            mode += ": chain and host are checked"
        } else {
            mode += configuration.enforcePinning ? ", enforced" : ", only reported"
            if configuration.allowInvalidCertificates { mode += ", invalid certificates allowed" }
            if !configuration.validatesDomainName { mode += ", host not checked" }
        }
        if domain.host != host { mode += " (by \(domain.host))" }
        rows.append(Row(label: "pinning", text: mode))
        if let ports = domain.ports {
            let listed = ports.map(String.init).joined(separator: ", ")
            let others = unpinnedHosts == .deny ? "others are denied" : "on others chain and host are checked"
            rows.append(Row(label: "ports", text: "\(listed); \(others)"))
        }
        if !configuration.pins.isEmpty {
            let backups = configuration.pins.count { $0.isBackup }
            rows.append(Row(label: "pins", text: "\(configuration.pins.count), of them backups: \(backups)"))
        }
        let authorities = PublicAuthority.sets(in: configuration.pins)
        if !authorities.isEmpty {
            let names = authorities.map(\.rawValue).joined(separator: ", ")
            rows.append(Row(label: "authorities", text: "among the pins the root sets of \(names)"))
        }
        if !configuration.pinnedCertificates.isEmpty {
            rows.append(Row(label: "certificates", text: "\(configuration.pinnedCertificates.count)"))
        }
        if !configuration.forbiddenPins.isEmpty {
            rows.append(Row(label: "forbidden", text: "\(configuration.forbiddenPins.count)"))
        }
        if configuration.pinningMode != .none {
            let after = configuration.onExpiration == .deny ? "denied" : "unpinned"
            let expiry = configuration.expiration.map { "\($0) is the last day, then \(after)" } ?? "never"
            rows.append(Row(label: "expires", text: expiry))
        }
        if !configuration.requireGroups.isEmpty {
            let names = configuration.requireGroups.map(\.rawValue).joined(separator: ", ")
            rows.append(Row(label: "groups", text: "only \(names)"))
        }
        if let revocation = revocation(configuration) { rows.append(Row(label: "revocation", text: revocation)) }
        if !configuration.reportUris.isEmpty {
            // Path and query may hold the collector's token, and every local user may read this.
            let uris = configuration.reportUris.map { "\($0.origin)" }.joined(separator: ", ")
            rows.append(Row(label: "reports", text: uris))
        }
        return rows
    }

    private static func revocation(_ configuration: SecurityPolicy.Configuration) -> String? {
        var parts: [String] = []
        if let lists = configuration.revocationLists {
            let count = lists.count == 1 ? "1 list" : "\(lists.count) lists"
            let scope = configuration.revocationScope == .leaf ? "the server's certificate" : "the whole chain"
            parts.append("\(count) for \(scope)")
        }
        if configuration.fetchesRevocationLists {
            let scope =
                configuration.revocationScope == .leaf ? "the server's certificate" : "the chain below its anchor"
            parts.append("lists are fetched for \(scope), from where the certificates name")
        }
        if configuration.requiresStaple { parts.append("a staple is required") }
        return parts.isEmpty ? nil : parts.joined(separator: "; ")
    }

    private static func anchors(of policy: SecurityPolicy?, _ snapshot: PolicySnapshot) -> String {
        if let own = policy?.configuration.trustAnchors { return "of the pin file (\(own.count))" }
        return anchors(snapshot.configuration.trustAnchors)
    }

    /// Describes the subdomains; pins and entry may differ in whether they include them.
    private static func subdomains(
        _ host: Host,
        _ entry: HostConfiguration,
        _ domain: PinnedDomains.Domain?
    ) -> String {
        let pins = domain.map(\.includeSubdomains)
        let configured = entry.host == nil ? nil : entry.includeSubdomains
        switch (pins, configured) {
        case (let pins?, let configured?) where pins != configured:
            return pins ? "yes for the pins, no for the entry of hosts" : "no for the pins, yes for the entry of hosts"
        default:
            return (pins ?? configured ?? false) ? "yes" : "no"
        }
    }
}
