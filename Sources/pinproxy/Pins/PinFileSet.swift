// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import StrictJSON

/// The pin files at one path, with the contents of the files that they name, for `pins diff`.
final class PinFileSet {
    /// The domains, sorted by name.
    let domains: [PinnedDomains.Domain]
    private let pinned: PinnedDomains
    private let byHost: [Host: PinnedDomains.Domain]
    /// Each document's domains by normal form. They are read again, because a policy does not show every detail of its
    /// file.
    private var documents: [String: [Host: DocumentObject]] = [:]

    /// - Parameter path: a pin file or a folder of them. Every issue is printed before the failure.
    init(path: String) throws(CommandFailure) {
        guard access(path, F_OK) == 0 else {
            throw CommandFailure(
                .inputMissing,
                "\(Arguments.shown(path: path)) cannot be read: \(String(cString: strerror(errno)))",
                remedy: "name a pin file or a folder of them"
            )
        }
        do throws(DocumentIssues) {
            pinned = try PinFile.load(path: path, at: Clock.seconds).domains
        } catch {
            Output.error(error.issues.map { "\($0)\n" }.joined())
            let count = error.issues.total
            throw CommandFailure(.badConfiguration, "\(count == 1 ? "1 error" : "\(count) errors") in the pin files")
        }
        domains = pinned.domains.sorted { $0.host.description < $1.host.description }
        byHost = Dictionary(uniqueKeysWithValues: pinned.domains.map { ($0.host, $0) })
    }

    /// The entry of the host itself.
    func entry(_ host: Host) -> PinnedDomains.Domain? { byHost[host] }

    /// The entry that applies to the host: its own, else the nearest parent's with subdomains.
    func governing(_ host: Host) -> PinnedDomains.Domain? {
        entry(host) ?? pinned.policy(host: host, port: 443)?.domain.flatMap { byHost[$0] }
    }

    /// The domain's own anchors; nil when those of the configuration apply.
    func anchors(of domain: PinnedDomains.Domain) -> (system: Bool, certificates: [Certificate])? {
        guard domain.policy?.configuration.trustAnchors != nil,
            let object = document(of: domain)?.object("trustAnchors")
        else { return nil }
        let certificates = contents(object, "files").flatMap { (try? Certificate.certificates(in: $0)) ?? [] }
        return (object.bool("system") ?? true, certificates)
    }

    /// The contents of the revocation lists.
    func revocationLists(of domain: PinnedDomains.Domain) -> Set<[UInt8]> {
        guard domain.policy?.configuration.revocationLists != nil else { return [] }
        return Set(document(of: domain)?.object("revocation").map { contents($0, "crlFiles") } ?? [])
    }

    private func contents(_ object: DocumentObject, _ key: String) -> [[UInt8]] {
        (object.elements(key) ?? []).compactMap { $0.fileContents() }
    }

    private func document(of domain: PinnedDomains.Domain) -> DocumentObject? {
        if let known = documents[domain.file] { return known[domain.host] }
        var objects: [Host: DocumentObject] = [:]
        for (name, element) in DocumentReader(file: domain.file).rootObject()?.object("pinnedDomains")?.entries ?? [] {
            if let host = try? DomainName.host(name) { objects[host] = element.object() }
        }
        documents[domain.file] = objects
        return objects[domain.host]
    }
}
