// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import StrictJSON

/// The report destinations of all domains. No destination may lead back to the reported domain, directly or through the
/// reports of other domains, because one failed pin would then cause endless reports.
struct ReportDestinations {
    private struct Destination {
        var domain: Host
        var uri: ReportURI
        var element: DocumentElement
    }

    private var destinations: [Destination] = []

    mutating func add(_ domain: PinnedDomains.Domain, _ elements: [DocumentElement]) {
        guard let policy = domain.policy else { return }
        for (uri, element) in zip(policy.configuration.reportUris, elements) {
            destinations.append(Destination(domain: domain.host, uri: uri, element: element))
        }
    }

    /// Reports each destination that leads back, on any port.
    func reportLoops(in domains: PinnedDomains) {
        var edges: [Host: Set<Host>] = [:]
        for destination in destinations {
            guard let next = domains.governing(destination.uri.host) else { continue }
            edges[destination.domain, default: []].insert(next)
        }
        for destination in destinations {
            guard let first = domains.governing(destination.uri.host) else { continue }
            if first == destination.domain {
                destination.element.report(
                    "\(destination.uri.host) is a host that these reports are about",
                    remedy: "name a collector on a host that this domain's policy does not cover"
                )
            } else if Self.leads(from: first, to: destination.domain, edges) {
                destination.element.report(
                    "the reports about \(first), where these go, lead back to \(destination.domain)",
                    remedy: "name a collector on a host whose own reports do not come back here"
                )
            }
        }
    }

    private static func leads(from start: Host, to end: Host, _ edges: [Host: Set<Host>]) -> Bool {
        var seen: Set<Host> = [start]
        var front = [start]
        while let place = front.popLast() {
            for next in edges[place, default: []] {
                if next == end { return true }
                if seen.insert(next).inserted { front.append(next) }
            }
        }
        return false
    }
}

extension PinnedDomains {
    /// The domain whose policy applies to a host.
    fileprivate func governing(_ host: Host) -> Host? { policy(host: host, port: 443)?.domain }
}

extension DocumentElement {
    /// Reads the string as an address for reports; nil after an issue.
    func reportURI() -> ReportURI? {
        guard let text = string() else { return nil }
        let remedy = "write a URI such as https://collector.example.net/reports"
        do throws(ReportURI.Fault) {
            return try ReportURI(text)
        } catch {
            switch error {
            case .malformed: report("\"\(LegibleText.excerpt(text))\" is no http or https URI", remedy: remedy)
            case .scheme: report("reports go to http and https URIs alone", remedy: remedy)
            case .userInformation:
                report("a URI for reports holds no user or password", remedy: "take what stands before the @ out")
            case .fragment: report("a URI for reports has no fragment", remedy: "take the # and what follows out")
            }
            return nil
        }
    }
}
