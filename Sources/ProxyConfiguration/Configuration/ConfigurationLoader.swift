// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
package import ServerTrust
package import StrictJSON

/// Makes the parts of a policy of `config.json` and all files that it names, or reports every error.
///
/// Blocking disk I/O: at start, on reload and in commands, never on a loop.
package enum ConfigurationLoader {
    package struct Outcome: Sendable {
        /// Nil when there is any issue.
        package var parts: PolicyParts?
        /// The errors of the configuration, its anchors and its pin files, in the order of files and lines (`IssueList`).
        package var issues: [DocumentIssue]
        /// Facts that do not prevent the start but should be known; printed at every start.
        package var warnings: [DocumentIssue]
        /// The configuration file itself does not exist (exit 66; every other issue is exit 78).
        package var configurationIsMissing = false
        /// The record of all files that were read, with or without errors.
        package var record = FileRecord()
    }

    /// - Parameters:
    ///   - path: the configuration file; the paths in it are relative to its folder.
    ///   - intercepting: hosts whose entry does not say otherwise are intercepted, by a CA that the caller adds. The file's own
    ///     CA is not read.
    ///   - readsPins: false leaves the pin files, and what only they show, unread.
    package static func load(path: String, intercepting: Bool = false, readsPins: Bool = true) -> Outcome {
        var (outcome, record) = FileRecord.recording {
            load(DocumentReader(file: path), intercepting: intercepting, readsPins: readsPins)
        }
        outcome.record = record
        if outcome.parts == nil, access(path, F_OK) != 0, errno == ENOENT { outcome.configurationIsMissing = true }
        return outcome
    }

    /// Loads a document in memory; its relative paths start at `reader.file`.
    package static func load(
        _ reader: DocumentReader,
        intercepting: Bool = false,
        readsPins: Bool = true
    ) -> Outcome {
        var read = ConfigurationReader(reader)
        read.interceptsAll = intercepting
        read.read()
        let library = TrustAnchorLibrary(intermediates: read.intermediates.flatMap { $0.certificates() ?? [] })
        let anchors = loadAnchors(read, library)
        let (pinnedDomains, pinIssues, pinWarnings) =
            readsPins ? loadPins(read, library) : (PinnedDomains(), [], [])
        if readsPins, let pinnedDomains {
            checkAgainstPins(read, pinnedDomains)
            checkCredentials(read, pinnedDomains, now: Clock.seconds)
            checkSharedCache(read, pinnedDomains)
        }
        var parts = PolicyParts(
            configuration: read.configuration,
            pinnedDomains: pinnedDomains ?? PinnedDomains(),
            trustAnchors: anchors ?? TrustAnchors(certificates: [])
        )
        loadClients(read, into: &parts)
        loadAdminToken(read, into: &parts)
        loadSharedCache(read, into: &parts)
        if !intercepting { loadAuthority(read, into: &parts) }

        let issues = IssueList.joined([reader.issuesInOrder, pinIssues])
        let warnings = IssueList.joined([reader.warningsInOrder, pinWarnings], "warnings")
        guard issues.isEmpty, anchors != nil, pinnedDomains != nil else {
            return Outcome(parts: nil, issues: issues, warnings: warnings)
        }
        return Outcome(parts: parts, issues: [], warnings: warnings)
    }

    private static func loadAnchors(_ read: ConfigurationReader, _ library: TrustAnchorLibrary) -> TrustAnchors? {
        var isWhole = true
        // The files are read one by one, so that each bad file is reported at the place that names it.
        for file in read.anchorFiles {
            do {
                _ = try library.anchors(system: false, files: [file.value])
            } catch {
                isWhole = false
                file.element.report(error.message, remedy: error.remedy)
            }
        }
        guard isWhole else { return nil }
        let wanted = read.configuration.trustAnchors
        do {
            return try library.anchors(system: wanted.system, files: wanted.files)
        } catch {
            let pointer = read.trustAnchors?.pointer ?? ""
            read.reader.report(
                error.message,
                remedy: error.remedy,
                pointer: pointer,
                place: read.trustAnchors?.value.place
            )
            return nil
        }
    }

    /// Reads the pin files and their issues; nil domains when there are any.
    private static func loadPins(
        _ read: ConfigurationReader,
        _ library: TrustAnchorLibrary
    ) -> (domains: PinnedDomains?, issues: [DocumentIssue], warnings: [DocumentIssue]) {
        guard let folder = read.pins else {
            // A folder that could not be read as a path has its issue already.
            if read.configuration.pins == nil, read.reader.issueCount == 0 {
                read.reader.warn(
                    "no host is pinned: the configuration names no folder of pin files",
                    remedy: "add \"pins\": \"pins\" and a pin file"
                )
            }
            return (PinnedDomains(), [], [])
        }
        guard FileContents.isFolder(folder.value) else {
            folder.element.report(
                "\(folder.value) is not a folder that can be read",
                remedy: "name the folder of the pin files, relative to this file or absolute"
            )
            return (nil, [], [])
        }
        do {
            let loaded = try PinFile.load(path: folder.value, at: Clock.seconds, library: library)
            return (loaded.domains, [], loaded.warnings)
        } catch {
            return (nil, error.issues, [])
        }
    }

    /// Reports issues that only configuration and pin files together show.
    private static func checkAgainstPins(_ read: ConfigurationReader, _ pinnedDomains: PinnedDomains) {
        for entry in read.refusedUpgrades {
            guard let host = entry.value.host, pinnedDomains.names(host) else { continue }
            entry.element.report(
                "a pin file names \(host), and such a host is never reached without TLS",
                remedy: "take it out, or take the host out of the pin files"
            )
        }
        for entry in read.tunnels {
            guard let host = entry.value.host, pinnedDomains.names(host) else { continue }
            entry.element.report(
                "a pin file names \(host), and such a host is never tunnelled: its pins could not be checked",
                remedy: "write \"deny\", or take the host out of the pin files"
            )
        }
        for entry in read.givenCredentials where !entry.value.upgrade {
            guard let host = entry.value.host, !pinnedDomains.names(host) else { continue }
            entry.element.warn(
                "a request for http://\(host) carries these credentials in the clear",
                remedy: "add \"upgrade\": true"
            )
        }
        for entry in read.serverNames {
            guard let host = entry.value.host, let name = entry.value.tlsServerName, pinnedDomains.names(name) else {
                continue
            }
            // Its pins have to name whatever the entry is for, or those of the server's name would not count.
            let below = entry.value.includeSubdomains ? try? Host("any.\(host)") : nil
            guard let free = [host, below].compactMap({ $0 }).first(where: { !pinnedDomains.names($0) }) else {
                continue
            }
            let whose = free == host ? "\(host)" : "hosts below \(host)"
            entry.element.report(
                "a pin file names \(name), and its pins would not count for \(whose)",
                remedy:
                    "name \(whose) in the pin file, too, or send the requests to \(name), with \"resolve\" for its address"
            )
        }
        guard read.configuration.unpinnedHosts == .deny else { return }
        for upstream in read.upstreams {
            let (host, port) = (upstream.value.host, upstream.value.port)
            guard !pinnedDomains.covers(host: host, port: port) else { continue }
            let reason =
                pinnedDomains.names(host)
                ? "the pin file's ports of \(host) leave out \(port)" : "no pin file names \(host)"
            upstream.element.report(
                "unpinnedHosts is deny, and \(reason): every request would be refused",
                remedy: "pin the host\(pinnedDomains.names(host) ? " on that port" : ""), or let unpinnedHosts be allow"
            )
        }
    }
}
