// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import StrictJSON

/// Reads one domain of a pin file: the value of a member of `pinnedDomains`.
struct DomainReader {
    let object: DocumentObject
    /// `nil` when the name is invalid; the rest of the domain is checked nevertheless.
    let host: Host?
    let time: Int64
    let library: TrustAnchorLibrary

    private var configuration = SecurityPolicy.Configuration()
    /// The place of each pin, forbidden pin and pinned certificate in the document, by its index in the configuration.
    private var places: [String: [DocumentElement]] = [:]
    /// The place of each of the configuration's `reportUris` in the document.
    private(set) var reportElements: [DocumentElement] = []
    /// Lists with entries that could not be read: missing entries in them are not reported in addition.
    private var incomplete: Set<String> = []

    init(object: DocumentObject, host: Host?, time: Int64, library: TrustAnchorLibrary) {
        self.object = object
        self.host = host
        self.time = time
        self.library = library
    }

    /// The domain if it is valid; every issue is added to the document's reader.
    mutating func read() -> PinnedDomains.Domain? {
        let issues = object.reader.issueCount
        let includeSubdomains = readIncludeSubdomains()
        _ = object.string("comment")
        if object.bool("excludeFromParentPolicy") ?? false {
            checkNothingElse()
            guard object.reader.issueCount == issues, let host else { return nil }
            return domain(host, includeSubdomains, ports: nil, policy: nil)
        }
        configuration.domain = host
        configuration.includesSubdomains = includeSubdomains
        let ports = readPorts()
        readMode()
        readPins()
        readCertificates()
        readExpiration()
        readConnection()
        readRevocation()
        readReports()
        object.finish()
        reportFaults()
        guard object.reader.issueCount == issues, let host else { return nil }
        do {
            let policy = try SecurityPolicy(configuration)
            warn(policy)
            return domain(host, includeSubdomains, ports: ports, policy: policy)
        } catch {
            // The faults were checked above; if the two checks ever differ, the file is refused.
            object.element.report("\(error)", remedy: "mend the domain's policy")
            return nil
        }
    }

    private func domain(
        _ host: Host,
        _ includeSubdomains: Bool,
        ports: [UInt16]?,
        policy: SecurityPolicy?
    ) -> PinnedDomains.Domain {
        .init(
            host: host,
            includeSubdomains: includeSubdomains,
            ports: ports,
            policy: policy,
            file: object.reader.file
        )
    }

    // MARK: - Hosts

    private func readIncludeSubdomains() -> Bool {
        guard let element = object["includeSubdomains"], element.bool() == true else { return false }
        if let host, host.kind != .name {
            element.report("an IP address has no subdomains", remedy: "take it out")
        } else if let host, DomainName.isPublicSuffix(host) {
            element.report(
                "\(host) is a public suffix: this would pin other people's domains",
                remedy: "name your own domain below it"
            )
        }
        return true
    }

    /// An excluded domain has no policy, so that no other key is allowed.
    private func checkNothingElse() {
        for (name, element) in object.entries
        where !["excludeFromParentPolicy", "includeSubdomains", "comment"].contains(name) {
            element.report(
                "\"\(LegibleText.excerpt(name))\" on a domain that is excluded from its parent's policy",
                remedy: "take it out, or set \"excludeFromParentPolicy\" to false"
            )
        }
    }

    private func readPorts() -> [UInt16]? {
        guard let element = object["ports"], let elements = element.elements() else { return nil }
        if elements.isEmpty {
            element.report("an empty list covers no port", remedy: "name a port, or take \"ports\" out to cover all")
        }
        var ports: [UInt16] = []
        var listed: Set<UInt16> = []
        for element in elements {
            guard let port = element.int(in: 1...65_535).map({ UInt16($0) }) else { continue }
            if !listed.insert(port).inserted {
                element.report("port \(port) stands in the list already", remedy: "keep one of the two")
            }
            ports.append(port)
        }
        return ports
    }

    // MARK: - Mode and pins

    private mutating func readMode() {
        configuration.pinningMode = object["pinningMode"]?.choice() ?? .publicKey
        configuration.allowInvalidCertificates = object.bool("allowInvalidCertificates") ?? false
        configuration.validatesDomainName = object.bool("validatesDomainName") ?? true
        configuration.enforcePinning = object.bool("enforcePinning") ?? true
        configuration.allowSinglePin = object.bool("allowSinglePin") ?? false
    }

    private mutating func readPins() {
        configuration.pins = readPins("pins", allowsBackup: true)
        readAuthorities()
        configuration.forbiddenPins = readPins("forbiddenPins", allowsBackup: false)
    }

    private mutating func readPins(_ key: String, allowsBackup: Bool) -> [Pin] {
        guard let element = object[key] else { return [] }
        guard let elements = element.elements() else {
            incomplete.insert(key)
            return []
        }
        var pins: [Pin] = []
        for element in elements {
            if let pin = PinReader.read(element, allowsBackup: allowsBackup) {
                pins.append(pin)
                places[key, default: []].append(element)
            } else {
                incomplete.insert(key)
            }
        }
        return pins
    }

    /// The root sets of public CAs, as pins of scope `ca`: from there on they are pins like any others.
    private mutating func readAuthorities() {
        guard let element = object["authorities"] else { return }
        guard let elements = element.elements() else {
            incomplete.insert("pins")
            return
        }
        if configuration.pinningMode != .publicKey, !elements.isEmpty {
            element.report("mode \(configuration.pinningMode.rawValue) looks at no key", remedy: "use mode publicKey")
        }
        var listed: Set<PublicAuthority> = []
        for element in elements {
            guard let authority: PublicAuthority = element.choice() else {
                incomplete.insert("pins")
                continue
            }
            if !listed.insert(authority).inserted {
                element.report("the authority stands in the list already", remedy: "keep one of the two")
            }
            guard configuration.pinningMode == .publicKey else { continue }
            for root in authority.unverified {
                element.warn(
                    "the key of \(root.name) is not verified, and is not pinned: \(root.source)",
                    remedy: "where servers need it, pin it under \"pins\" once its operator has confirmed it"
                )
            }
            for pin in authority.pins
            where !configuration.pins.contains(where: { $0.key == pin.key && $0.scope != .leaf }) {
                configuration.pins.append(pin)
                places["pins", default: []].append(element)
            }
        }
    }

    private mutating func readCertificates() {
        let key = "pinnedCertificates"
        guard let element = object[key] else { return }
        guard let elements = element.elements() else {
            incomplete.insert(key)
            return
        }
        var pinned: Set<[UInt8]> = []
        for element in elements {
            guard let certificates = element.certificates() else {
                incomplete.insert(key)
                continue
            }
            for certificate in certificates {
                if !pinned.insert(SecretDigest.sha256(certificate.derBytes)).inserted {
                    element.report(
                        "the certificate \"\(certificate.subject)\" is pinned already",
                        remedy: "keep one of the two"
                    )
                }
                configuration.pinnedCertificates.append(certificate)
                places[key, default: []].append(element)
            }
        }
    }

    private mutating func readExpiration() {
        if let element = object["expiration"], let text = element.string() {
            configuration.expiration = CalendarDate(text)
            if configuration.expiration == nil {
                element.report(
                    "\"\(LegibleText.excerpt(text))\" is no date",
                    remedy: "write a day of the calendar as YYYY-MM-DD"
                )
            }
        }
        guard let element = object["onExpiration"] else { return }
        configuration.onExpiration = element.choice() ?? .deny
        if !object.has("expiration") {
            element.report("without \"expiration\" it never applies", remedy: "add the date, or take it out")
        }
    }

    // MARK: - The connection

    private mutating func readConnection() {
        configuration.minTLSVersion = object["minTLSVersion"]?.choice() ?? .tls12
        readGroups()
        configuration.maxChainDepth =
            object.int("maxChainDepth", in: 0...SecurityPolicy.Configuration.longestChain)
            ?? SecurityPolicy.Configuration.longestChain
        if let element = object["trustAnchors"] {
            configuration.trustAnchors = TrustAnchorReader.read(
                element,
                library: library,
                mayBeEmpty: configuration.allowInvalidCertificates
            )
        }
        configuration.intermediates = (object.elements("intermediates") ?? []).flatMap { $0.certificates() ?? [] }
        guard let identity = object.object("clientCertificate") else { return }
        let certificate = identity.required("certificate")
        let key = identity.required("key")
        identity.finish()
        guard let certificate, let certificateBytes = certificate.fileContents(), let key,
            let keyBytes = key.fileContents()
        else { return }
        if let path = key.string(), FileContents.isReadableByEveryone(key.reader.resolve(path: path)) {
            key.warn("every user of this machine can read the private key", remedy: "chmod o-r \(path)")
        }
        configuration.clientCertificate = identity.element.reported { () throws(CertificateFault) in
            try ClientIdentity(certificate: certificateBytes, privateKey: keyBytes, file: certificate.string())
        }
        if configuration.clientCertificate?.certificates[0].mayIdentifyClients == false {
            certificate.warn(
                "the certificate is not for TLS clients: its extended key usage has no clientAuth, and servers refuse it",
                remedy: "have it issued for clients; public CAs no longer do that, a private CA can"
            )
        }
    }

    private mutating func readGroups() {
        guard let element = object["requireGroups"], let elements = element.elements() else { return }
        if elements.isEmpty {
            element.report("an empty list allows no group", remedy: "name one, or take \"requireGroups\" out")
        }
        for element in elements {
            guard let group = element.choice(TLSGroup.self) else { continue }
            configuration.requireGroups.append(group)
            places["requireGroups", default: []].append(element)
        }
    }

    private mutating func readRevocation() {
        guard let revocation = object.object("revocation") else { return }
        let issues = revocation.reader.issueCount
        configuration.revocationScope = revocation["crlScope"]?.choice() ?? .leaf
        configuration.requiresStaple = revocation.bool("requireStaple") ?? false
        configuration.fetchesRevocationLists = revocation.bool("fetch") ?? false
        let files = revocation.elements("crlFiles") ?? []
        revocation.finish()
        if files.isEmpty, !configuration.requiresStaple, !configuration.fetchesRevocationLists,
            revocation.reader.issueCount == issues
        {
            revocation.element.report(
                "it checks nothing: no list is fetched or named under crlFiles, and no staple is asked for",
                remedy:
                    "set \"fetch\" to true, name crlFiles, set \"requireStaple\" to true, or take \"revocation\" out"
            )
        }
        configuration.revocationLists = DocumentElement.revocationLists(
            of: files,
            at: time,
            effect: "the certificates that it should cover are refused"
        )
    }

    private mutating func readReports() {
        guard let elements = object.elements("reportUris") else { return }
        var listed: Set<ReportURI> = []
        for element in elements {
            guard let uri = element.reportURI() else { continue }
            if !listed.insert(uri).inserted {
                element.report("the URI stands in the list already", remedy: "keep one of the two")
            }
            configuration.reportUris.append(uri)
            reportElements.append(element)
        }
    }

    // MARK: - Contradictions

    /// Reports contradictions between settings, with their place in the file.
    private func reportFaults() {
        // The pins of an authority have one place together, and say the same of it.
        var reported: Set<String> = []
        for fault in configuration.faults() where !incomplete.contains(fault.key) {
            // A list that is too short only because an entry could not be read is not reported again.
            if fault.key == "pins", incomplete.contains("pinnedCertificates") { continue }
            let parts = fault.key.split(separator: "/").map(String.init)
            if parts.count == 2, let index = Int(parts[1]), let list = places[parts[0]], index < list.count {
                guard reported.insert(list[index].pointer + fault.message).inserted else { continue }
                list[index].report(fault.message, remedy: fault.remedy)
            } else {
                (object[parts[0]] ?? object.element).report(fault.message, remedy: fault.remedy)
            }
        }
    }

    private func warn(_ policy: SecurityPolicy) {
        let name = policy.domain.map { "\($0)" } ?? ""
        if policy.isUnverified {
            let key = policy.allowInvalidCertificates ? "allowInvalidCertificates" : "validatesDomainName"
            (object[key] ?? object.element).warn(
                "servers of \(name) are not identified: attackers on the way can read and change the traffic",
                remedy: "pin the certificate or its key"
            )
        }
        if !policy.configuration.enforcePinning {
            object["enforcePinning"]?.warn(
                "pins of \(name) are only reported, not enforced",
                remedy: "set it to true when the reports are clean"
            )
        }
        if !policy.configuration.pins.isEmpty, policy.configuration.pins.allSatisfy(\.isBackup),
            policy.pinnedCertificates.isEmpty
        {
            (object["pins"] ?? object.element).warn(
                "every pin of \(name) is a backup: none is the key in use",
                remedy: "take \"backup\" off the key that the server has now"
            )
        }
        if policy.configuration.requiresStaple,
            let authority = PublicAuthority.allCases.first(where: { authority in
                !authority.hasOCSP
                    && authority.pins.contains { pin in policy.configuration.pins.contains { $0.key == pin.key } }
            })
        {
            (object["revocation"] ?? object.element).warn(
                "\(authority.title) has no OCSP any more: servers with its certificates have nothing to staple, and cannot "
                    + "pass requireStaple",
                remedy: "do without requireStaple, and have its lists fetched (\"fetch\": true)"
            )
        }
        warnOfExpiration(policy, name)
    }

    private func warnOfExpiration(_ policy: SecurityPolicy, _ name: String) {
        guard let expiration = policy.configuration.expiration else { return }
        let left = expiration.end.subtractingSaturated(time)
        guard left <= PinFile.expirationNotice else { return }
        let effect = policy.configuration.onExpiration == .deny ? "every request is refused" : "no pin is looked at"
        let message =
            left > 0
            ? "the pin set of \(name) holds until \(expiration); after that day \(effect)"
            : "the pin set of \(name) held until \(expiration): \(effect)"
        object["expiration"]?.warn(
            message,
            remedy: "check the server's pins and renew the date",
            code: left > 0
                ? DocumentIssue.pinSetExpiry
                : policy.configuration.onExpiration == .deny ? DocumentIssue.pinSetExpired : nil
        )
    }
}
