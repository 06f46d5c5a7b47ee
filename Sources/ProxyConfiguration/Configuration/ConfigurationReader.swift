// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import SessionCore
import StrictJSON

/// Reads `config.json` into a `Configuration`, and remembers the places of values that can only be checked together
/// with the pin files.
///
/// It never stops at an error: an unreadable value keeps its default, and `reader.issues` has the error.
struct ConfigurationReader {
    /// A value and its element.
    struct Placed<Value> {
        var value: Value
        var element: DocumentElement
    }

    /// A rule and the places of the names in its `credential`.
    struct CredentialUse {
        var rule: Placed<RequestRule>
        var names: [Placed<String>]
    }

    let reader: DocumentReader
    let variables = EnvironmentVariables()
    var configuration = Configuration()

    // Places that later checks report at.
    var pins: Placed<String>?
    var trustAnchors: DocumentElement?
    var anchorFiles: [Placed<String>] = []
    /// The files of `intermediates`.
    var intermediates: [DocumentElement] = []
    var listeners: [Placed<ListenerConfiguration>] = []
    var hosts: [Placed<HostConfiguration>] = []
    var resolves: [Placed<AddressAndPort>] = []
    var upstreams: [Placed<ListenerConfiguration.Upstream>] = []
    /// The `tls` of listeners.
    var tlsFiles: [TLSFiles] = []
    /// Every `authentication`.
    var authentications: [AuthenticationFiles] = []
    /// Entries of `hosts`, and `defaults`, with `"connect": "intercept"`.
    var intercepted: [Placed<HostConfiguration>] = []
    var interception: InterceptionFiles?
    var redis: RedisFiles?
    /// The `tokenFile` of `admin`.
    var adminToken: Placed<String>?
    var globalAuthentication: DocumentElement?
    var namesListeners = false
    var namesCache = false
    /// Entries of `hosts` with `"upgrade": false`.
    var refusedUpgrades: [Placed<HostConfiguration>] = []
    /// Entries of `hosts` that add credentials to requests, and the places of these.
    var givenCredentials: [Placed<HostConfiguration>] = []
    /// Entries of `hosts` with a `tlsServerName`.
    var serverNames: [Placed<HostConfiguration>] = []
    /// Entries of `hosts` with `"connect": "tunnel"`.
    var tunnels: [Placed<HostConfiguration>] = []

    /// Whether `connect` is `intercept` for hosts whose entry does not say otherwise, whatever the file says.
    var interceptsAll = false

    var upstreamProxies: [Placed<UpstreamProxyConfiguration>] = []
    /// The rules of `requests`.
    var requestRules: [Placed<RequestRule>] = []
    /// `credentials`, without those that could not be read.
    var credentials: [Placed<CredentialDefinition>] = []
    /// The names of all.
    var credentialNames: Set<String> = []
    /// The rules with a `credential`.
    var credentialUses: [CredentialUse] = []

    init(_ reader: DocumentReader) {
        self.reader = reader
    }

    mutating func read() {
        guard let root = reader.rootObject() else { return }
        _ = root.string("$schema")
        comment(root)
        if let element = root.required("version"), let version = element.int(in: 0...Int.max), version != 1 {
            element.report(
                "version \(version) of the configuration is not known",
                remedy: "write 1, or run the pinproxy that this file is for"
            )
        }
        if let workers = root.int("workers", in: 0...256) { configuration.workers = workers }
        globalAuthentication = root["authentication"]
        configuration.authentication = globalAuthentication.flatMap { readAuthentication($0) }
        namesListeners = root.has("listeners")
        if let element = root["listeners"] { readListeners(element) }
        if let object = root.object("admin") { readAdmin(object) }
        if let element = root["pins"], let path = element.path() {
            configuration.pins = path
            pins = Placed(value: path, element: element)
        }
        if let object = root.object("trustAnchors") { readTrustAnchors(object) }
        if let elements = root.elements("intermediates") { intermediates = elements.filter { $0.path() != nil } }
        if let choice = root["unpinnedHosts"]?.choice(UnpinnedHosts.self) { configuration.unpinnedHosts = choice }
        if let choice = root["resolver"]?.choice(NameResolution.self) { configuration.resolver = choice }
        if let object = root.object("interception") { readInterception(object) }
        if let object = root.object("log") { readLog(object) }
        if let object = root.object("reports") { readReports(object) }
        if let object = root.object("crls") { readRevocationLists(object) }
        if let object = root.object("access") { readAccess(object) }
        if let object = root.object("requests") { readRequests(object) }
        if let object = root.object("credentials") { readCredentials(object) }
        if let object = root.object("tracing") { readTracing(object) }
        if let object = root.object("requestID") { readRequestID(object) }
        if let object = root.object("limits") { readLimits(object) }
        if let element = root["upstreamProxy"], case .proxy(let proxy) = readUpstreamProxy(element) {
            configuration.defaults.upstreamProxy = proxy
        }
        namesCache = root.has("cache")
        if let object = root.object("cache") { readCache(object) }
        if let object = root.object("defaults") { readDefaults(object) }
        if interceptsAll { configuration.defaults.connect = .intercept }
        if let object = root.object("hosts") { readHosts(object) }
        root.finish { key in
            if Self.keysOfDefaults.contains(key) {
                return "move it into \"defaults\", or into a host's entry in \"hosts\""
            }
            return Self.keysOfHosts.contains(key) ? "move it into a host's entry in \"hosts\"" : nil
        }
        configuration.variables = variables.names
        checkTogether()
    }

    /// Keys of `defaults` and of the entries of `hosts`, which people look for at the top.
    static let keysOfDefaults: Set<String> = [
        "connect", "connectionsPerHost", "headers", "redirects", "responses", "rewriteUpgraded", "timeouts",
        "tlsProfile", "via",
    ]
    /// Keys of the entries of `hosts` alone.
    static let keysOfHosts: Set<String> = [
        "browsers", "httpVersion", "includeSubdomains", "resolve", "tlsServerName", "upgrade",
    ]

    /// Reads a comment for people, which every object may contain.
    func comment(_ object: DocumentObject) {
        _ = object.string("comment")
    }

    private mutating func readTrustAnchors(_ object: DocumentObject) {
        trustAnchors = object.element
        comment(object)
        if let system = object.bool("system") { configuration.trustAnchors.system = system }
        if let files = object.elements("files") {
            for element in files {
                if let path = element.path() { anchorFiles.append(Placed(value: path, element: element)) }
            }
            configuration.trustAnchors.files = anchorFiles.map(\.value)
            if files.isEmpty, !configuration.trustAnchors.system { warnOfNoAnchors(object) }
        } else if !configuration.trustAnchors.system, !object.has("files") {
            warnOfNoAnchors(object)
        }
        object.finish()
    }

    private func warnOfNoAnchors(_ object: DocumentObject) {
        object.element.warn(
            "no certificate authority is trusted: only hosts whose pin file names anchors can be reached over TLS",
            remedy: "name files, or leave system true"
        )
    }

    private mutating func readRevocationLists(_ object: DocumentObject) {
        comment(object)
        if let element = object["folder"], let path = element.path() {
            configuration.revocationLists.folder = path
            if !FileContents.isMissing(path), !FileContents.isFolder(path) {
                element.report(
                    "\(path) is not a folder",
                    remedy: "name a folder for fetched revocation lists alone; it is made when it is not there"
                )
            }
        }
        if let element = object["every"], let every = element.duration() {
            configuration.revocationLists.every = every
            if every < Milliseconds(60_000) {
                element.report(
                    "less than a minute",
                    remedy: "write \"1m\" or more; issuers make new lists every few hours"
                )
            }
        }
        object.finish()
    }

    private mutating func readLog(_ object: DocumentObject) {
        comment(object)
        if let element = object["tasks"], let text = element.string() {
            switch text {
            case "stdout": configuration.log.tasks = .stdout
            case "stderr": configuration.log.tasks = .stderr
            case "off": configuration.log.tasks = .off
            default: if let path = element.path() { configuration.log.tasks = .file(path: path) }
            }
        }
        configuration.log.format = object["format"]?.choice(LogConfiguration.Format.self)
        if let level = object["level"]?.choice(LogConfiguration.Level.self) { configuration.log.level = level }
        if let element = object["redact"] { readSecretParameters(element) }
        object.finish()
    }

    /// Reads the list in the place of the usual one, or what the usual one has more and less.
    private mutating func readSecretParameters(_ element: DocumentElement) {
        guard case .object = element.value.content else {
            if let elements = element.elements() { configuration.log.redact = parameterNames(elements) }
            return
        }
        guard let object = element.object() else { return }
        comment(object)
        var names = SecretParameters.usual
        if let elements = object.elements("add") { names += parameterNames(elements) }
        for element in object.elements("remove") ?? [] {
            guard let name = parameterNames([element]).first else { continue }
            let count = names.count
            names.removeAll { SecretParameters.areSame($0, name) }
            if names.count == count {
                element.report(
                    "is not in the list of usual names",
                    remedy: "take it out; docs/task-log.md has the list"
                )
            }
        }
        configuration.log.redact = names
        object.finish()
    }

    private func parameterNames(_ elements: [DocumentElement]) -> [String] {
        elements.compactMap { element in
            guard let name = element.string() else { return nil }
            if !SecretParameters([name]).isEmpty { return name }
            element.report("names no query parameter", remedy: "write the parameter's name")
            return nil
        }
    }

    private mutating func readReports(_ object: DocumentObject) {
        comment(object)
        configuration.reports.file = object.required("file")?.path()
        object.finish()
    }

    private mutating func readAccess(_ object: DocumentObject) {
        comment(object)
        if let elements = object.elements("denyAddresses") {
            configuration.access.denyAddresses = elements.compactMap { $0.addressRule() }
        }
        if let patterns = object["denyHosts"]?.hostPatterns() { configuration.access.denyHosts = patterns }
        if let patterns = object["allowHosts"]?.allowingHostPatterns() { configuration.access.allowHosts = patterns }
        if let elements = object.elements("connectPorts") {
            configuration.access.connectPorts = elements.compactMap { $0.int(in: 1...65535) }.map { UInt16($0) }
        }
        object.finish()
    }

    private mutating func readLimits(_ object: DocumentObject) {
        comment(object)
        var limits = configuration.limits
        if let bytes = object["headBytes"]?.size(in: (4 << 10)...(1 << 20)) { limits.headBytes = bytes }
        if let count = object.int("headFields", in: 10...1000) { limits.headFields = count }
        if let bytes = object["targetBytes"]?.size(in: (1 << 10)...(64 << 10)) { limits.targetBytes = bytes }
        if let isStrict = object.bool("strictHost") { limits.strictHost = isStrict }
        if let bytes = object["responseHeadBytes"]?.size(in: (4 << 10)...(16 << 20)) {
            limits.responseHeadBytes = bytes
        }
        if let count = object.int("responseHeadFields", in: 10...10_000) { limits.responseHeadFields = count }
        if let count = object.int("connections", in: 1...1_000_000) { limits.connections = count }
        if let count = object.int("connectionsPerHost", in: 1...65_535) { limits.connectionsPerHost = count }
        limits.requestBodyBytes = object["requestBodyBytes"]?.size()
        if let bytes = object["redirectBodyBytes"]?.size(in: (1 << 10)...(1 << 40)) { limits.redirectBodyBytes = bytes }
        if let bytes = object["heldBytes"]?.size(in: (16 << 20)...(1 << 40)) { limits.heldBytes = bytes }
        configuration.limits = limits
        object.finish()
    }

    /// Checks values that only show a mistake together.
    private func checkTogether() {
        checkClients()
        checkRequests()
        checkCredentials()
        let rules = AccessRules(configuration.access, ownListeners: configuration.fixedAddresses)
        checkSharedCache(rules)
        for resolve in resolves
        where rules.evaluate(resolve.value.address, port: resolve.value.port) == .deniedOwnListener {
            resolve.element.report(
                "leads to one of pinproxy's own listeners",
                remedy: "name the origin's address and port"
            )
        }
        for proxy in upstreamProxies {
            guard let literal = proxy.value.literal,
                rules.evaluate(literal.address, port: literal.port) == .deniedOwnListener
            else { continue }
            proxy.element.report(
                "leads to one of pinproxy's own listeners",
                remedy: "name the address and port of the proxy behind this one"
            )
        }
        for upstream in upstreams {
            if let literal = upstream.value.exemption,
                rules.evaluate(literal.address, port: literal.port) == .deniedOwnListener
            {
                upstream.element.report(
                    "leads to one of pinproxy's own listeners",
                    remedy: "name the origin's address and port"
                )
            }
            let verdict = rules.evaluate(upstream.value.host)
            if verdict != .allowed {
                upstream.element.report(
                    "the access rules deny this upstream: \(rules.describe(verdict))",
                    remedy: "let access take it in, or take the listener out"
                )
            }
        }
    }
}
