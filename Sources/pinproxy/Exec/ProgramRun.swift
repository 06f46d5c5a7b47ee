// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust

/// What one run of `exec` adds to the configuration, at the start and at each reload: one listener, who may use it, and the CA for
/// interception, whose key is in the memory of this process alone.
struct ProgramRun {
    /// Nil: there is no configuration.
    let path: String?
    let intercepts: Bool
    /// Whether what rules and pins only leave out is sent, and summed up at the end.
    let reports: Bool
    /// The user that the program's requests are made as, and the secret in the URL of its proxy; nil: everyone may use the listener.
    private let user: (name: String, secret: String, token: RunToken)?
    private(set) var authority: LocalAuthority?
    /// The hosts that the CA may sign for; nil: any.
    private var authorityHosts: [Host]?
    /// Whether the configuration refuses hosts without pins.
    private(set) var deniesUnpinned = false

    init(_ arguments: Arguments) throws(CommandFailure) {
        intercepts = arguments.has("intercept")
        reports = arguments.has("report") || arguments.values["propose"] != nil
        // With these, a program is looked at without a policy: that of a service that happens to be installed would surprise.
        path =
            intercepts || reports
            ? arguments.values["config"] : try ConfigurationPath.find(arguments, of: .exec)
        guard intercepts || arguments.values["user"] != nil else {
            user = nil
            return
        }
        let name = arguments.values["user"] ?? "exec"
        if let fault = RunToken.faultOfName(name) {
            throw CommandFailure(
                .usage,
                "exec: --user \(Arguments.shown(name)): \(fault)",
                remedy: "choose another name"
            )
        }
        let secret = (0..<4).map { _ in Self.hexadecimal(.random(in: 0 ... .max)) }.joined()
        // Some programs cannot send a token (Java); the kernel says that they are this user's. A process of the same user could
        // read the token in the program's environment, too.
        let own = LoopbackClient.fault() == nil ? geteuid() : nil
        user = (name, secret, RunToken(name: name, token: secret, localUser: own))
    }

    private static func hexadecimal(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    // MARK: The policy

    /// Loads the configuration, and makes the CA.
    mutating func load() throws(CommandFailure) -> (parts: PolicyParts, record: FileRecord?) {
        var parts: PolicyParts
        var record: FileRecord?
        if let path {
            let (loaded, outcome) = try LoadedConfiguration.loadParts(path, intercepting: intercepts)
            LoadedConfiguration.show(WarningScope.general(outcome.warnings))
            (parts, record) = (loaded, outcome.record)
        } else {
            parts = try unconfigured()
        }
        deniesUnpinned = parts.configuration.unpinnedHosts == .deny
        report(&parts.configuration)
        if intercepts {
            authorityHosts = Self.authorityHosts(parts.configuration)
            authority = try Self.makeAuthority(for: authorityHosts)
        }
        prepare(&parts)
        return (parts, record)
    }

    private func unconfigured() throws(CommandFailure) -> PolicyParts {
        var configuration = Configuration()
        // There are no pins that a tunnel would lead around.
        configuration.defaults.connect = intercepts ? .intercept : .tunnel
        do throws(CertificateFault) {
            return PolicyParts(
                configuration: configuration,
                pinnedDomains: PinnedDomains(),
                trustAnchors: try TrustAnchorLibrary().anchors(system: true, files: [])
            )
        } catch {
            throw CommandFailure(.badConfiguration, error.message, remedy: error.remedy)
        }
    }

    /// Reduces a configuration to one listener on a free port, and no admin listener, because another process may use
    /// these addresses. The listener allows the same as the first forward listener of the file.
    func prepare(_ parts: inout PolicyParts) {
        let model = parts.configuration.listeners.first { $0.mode == .forward }
        parts.configuration.listeners = [
            ListenerConfiguration(
                endpoint: .address(AddressAndPort(IPAddress(ipv4: 0x7F00_0001), 0)),
                allowHosts: model?.allowHosts ?? .any
            )
        ]
        parts.configuration.admin = nil
        report(&parts.configuration)
        if parts.configuration.log.tasks == .stdout { parts.configuration.log.tasks = .stderr }
        if let user { parts.demand(user.token, atListener: 0) }
        if let authority { parts.authority = authority }
    }

    /// The same for a configuration that was read again.
    func prepareAgain(_ parts: inout PolicyParts) {
        prepare(&parts)
        guard authority != nil, let authorityHosts else { return }
        let wanted = Self.authorityHosts(parts.configuration)
        let isCovered = wanted?.allSatisfy { LocalAuthority.covers(authorityHosts, $0) } ?? false
        guard !isCovered else { return }
        EventLine(event: "restartNeeded")
            .with("key", "requests")
            .with(
                "message",
                "the rules let requests through to hosts that the CA of this run may not sign for: these are refused until "
                    + "exec is started anew"
            )
            .write(.warning, at: parts.configuration.log.level)
    }

    /// With --report what no rule matches, and hosts without pins, are not refused. Pins hold, and so does every rule that denies:
    /// somebody has written it.
    private func report(_ configuration: inout Configuration) {
        guard reports else { return }
        if configuration.requests?.policy == .deny { configuration.requests?.policy = .report }
        configuration.unpinnedHosts = .allow
        // The summary comes in their place.
        if configuration.log.tasks == .stdout { configuration.log.tasks = .off }
    }

    // MARK: The CA

    /// The hosts that the CA of a run may sign for: those of the rules that let requests through, where these decide alone. Nil: any.
    ///
    /// Name constraints take in what is below a host (RFC 5280, section 4.2.1.10), so that they are wider than a rule for one host,
    /// or for those below it alone; the rules judge each request all the same.
    private static func authorityHosts(_ configuration: Configuration) -> [Host]? {
        guard let requests = configuration.requests, requests.policy == .deny else { return nil }
        var hosts: Set<Host> = []
        for rule in requests.rules where rule.action.isSent {
            if rule.hosts.isEmpty { return nil }
            for pattern in rule.hosts {
                switch pattern {
                case .any: return nil
                case .exactly(let host), .below(let host): hosts.insert(host)
                }
            }
        }
        return hosts.sorted { $0.description < $1.description }
    }

    private static func makeAuthority(for hosts: [Host]?) throws(CommandFailure) -> LocalAuthority {
        let now = Clock.seconds
        do throws(OpenSSLError) {
            let validity = (now - 3600)..<(now + lifetime)
            return try LocalAuthority(
                LocalAuthority.make(for: hosts, name: "of one run", validity: validity),
                for: hosts
            )
        } catch {
            throw CommandFailure(.internal, "the CA of this run cannot be made: \(error)")
        }
    }

    /// Longer than any run.
    private static let lifetime: Int64 = 397 * 86_400

    // MARK: The environment

    /// The program's environment.
    ///
    /// - Parameters:
    ///   - listener: the address of the proxy.
    ///   - secrets: the variables that the configuration takes values from; the program does not get them.
    func environment(
        _ listener: SocketAddress,
        _ files: AnchorFiles?,
        without secrets: Set<String>,
        keepsNoProxy: Bool
    ) -> [String] {
        let user = user.map { "\(Self.percentEncoded($0.name)):\($0.secret)@" } ?? ""
        let kept = ProxyEnvironment.current.filter { !secrets.contains(ProxyEnvironment.name(of: $0)) }
        let environment = ProxyEnvironment.variables(
            kept,
            proxy: "http://\(user)\(listener)",
            keepsNoProxy: keepsNoProxy
        )
        guard let files else { return environment }
        let added = files.variables(over: environment, proxy: ("127.0.0.1", listener.port))
        let names = Set(added.map(\.name))
        return environment.filter { !names.contains(ProxyEnvironment.name(of: $0)) }
            + added.map { "\($0.name)=\($0.value)" }
    }

    /// The name in the form for the user information of a URL (RFC 3986, section 3.2.1).
    private static func percentEncoded(_ name: String) -> String {
        let digits = Array("0123456789ABCDEF")
        return name.utf8.map { byte in
            if ASCII.isLetter(byte) || ASCII.isDigit(byte) || "-._~".utf8.contains(byte) {
                return String(UnicodeScalar(byte))
            }
            return "%\(digits[Int(byte >> 4)])\(digits[Int(byte & 15)])"
        }.joined()
    }
}
