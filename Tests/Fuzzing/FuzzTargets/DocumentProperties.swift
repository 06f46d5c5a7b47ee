// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import ProxyCore
import ServerTrust
import StrictJSON

/// Configuration files: JSON, pin files, `config.json`.
final class DocumentProperties {
    /// The folder of the documents, with a few files that they may name.
    private let folder: String
    private let library = TrustAnchorLibrary()

    init(folder: String) {
        self.folder = folder
    }

    /// A text is refused with placed issues, or has the same value after it is serialised.
    func json(_ bytes: [UInt8]) throws(FuzzFinding) {
        let document = JSONDocument(bytes: bytes, file: "f.json")
        try check(document.issues, placed: true)
        guard document.issues.isEmpty else { return }
        guard let root = document.root else { throw FuzzFinding("neither a value nor an issue") }
        let text = Self.text(root)
        let again = JSONDocument(text: text, file: "f.json")
        guard again.issues.isEmpty, let copy = again.root, Self.text(copy) == text else {
            throw FuzzFinding("written anew it reads differently: \(text)")
        }
    }

    /// A pin file is refused as a whole, with useful issues; or every policy in it meets the invariants and is found
    /// under its name.
    func pinFile(_ bytes: [UInt8]) throws(FuzzFinding) {
        let file = folder + "/pins.json"
        let reader = DocumentReader(JSONDocument(bytes: bytes, file: file))
        let loaded: PinFile.Loaded
        do {
            loaded = try PinFile.load(readers: [reader], at: 1_800_000_000, library: library)
        } catch {
            guard !error.issues.isEmpty else { throw FuzzFinding("refused without an issue") }
            return try check(error.issues, placed: true)
        }
        try check(loaded.warnings, placed: true)
        guard !loaded.domains.domains.isEmpty else { throw FuzzFinding("a file without a domain was loaded") }
        for domain in loaded.domains.domains { try check(domain, in: loaded.domains) }
    }

    /// A configuration yields either a snapshot or issues.
    func configuration(_ bytes: [UInt8]) throws(FuzzFinding) {
        let reader = DocumentReader(JSONDocument(bytes: bytes, file: folder + "/config.json"))
        let outcome = ConfigurationLoader.load(reader)
        guard (outcome.parts == nil) == !outcome.issues.isEmpty else {
            throw FuzzFinding("\(outcome.issues.count) issues, and a snapshot: \(outcome.parts != nil)")
        }
        try check(outcome.issues + outcome.warnings, placed: false)
    }

    // MARK: - Properties

    private func check(_ domain: PinnedDomains.Domain, in domains: PinnedDomains) throws(FuzzFinding) {
        guard (try? DomainName.host(domain.host.description)) == domain.host else {
            throw FuzzFinding("the domain \(domain.host) is not in its normal form")
        }
        if domain.includeSubdomains, domain.host.kind != .name || DomainName.isPublicSuffix(domain.host) {
            throw FuzzFinding("\(domain.host) with subdomains pins other people's domains")
        }
        let found = domains.policy(host: domain.host, port: domain.ports?.first ?? 443)
        guard let policy = domain.policy else {
            guard found == nil else { throw FuzzFinding("the excluded domain \(domain.host) has a policy") }
            return
        }
        guard found === policy else { throw FuzzFinding("\(domain.host) is not found under its own name") }
        let settings = policy.configuration
        guard settings.faults().isEmpty else { throw FuzzFinding("a policy with faults: \(settings.faults())") }
        let expected = Set(policy.expectedPins)
        guard policy.pinningMode == .none || !expected.isEmpty else { throw FuzzFinding("a pinning mode without pins") }
        if policy.pinningMode == .publicKey, settings.enforcePinning, !settings.allowSinglePin, expected.count < 2 {
            throw FuzzFinding("a single pin that nobody asked for")
        }
    }

    /// Each issue has a place, a message and a remedy, on one line.
    private func check(_ issues: [DocumentIssue], placed: Bool) throws(FuzzFinding) {
        for issue in issues {
            guard !issue.message.isEmpty, !issue.remedy.isEmpty else {
                throw FuzzFinding("an issue without message or remedy: \(issue)")
            }
            if placed {
                guard let line = issue.line, let column = issue.column, line > 0, column > 0 else {
                    throw FuzzFinding("an issue without a place: \(issue)")
                }
            }
            // Issues go to terminals and logs.
            for scalar in issue.description.unicodeScalars where scalar.disturbsLine {
                throw FuzzFinding("the character U+\(String(scalar.value, radix: 16)) in an issue: \(issue)")
            }
        }
    }

    private static func text(_ value: DocumentValue) -> String {
        switch value.content {
        case .null: "null"
        case .bool(let flag): "\(flag)"
        case .number(let digits): digits
        case .string(let text): JSONString.quoted(text)
        case .array(let values): "[" + values.map { text($0) }.joined(separator: ",") + "]"
        case .object(let members):
            "{" + members.map { JSONString.quoted($0.name) + ":" + text($0.value) }.joined(separator: ",") + "}"
        // Only beside an issue.
        case .unreadable: "unreadable"
        }
    }
}
