// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust
import SessionCore
import SharedCaching

/// The page of `GET /metrics` (`docs/operations.md` lists it): the numbers of one moment, as a value.
///
/// Labels have few values: status classes, stable codes, verdicts, and the domains of the pin files. Values that
/// clients or origins choose are never labels.
struct MetricsPage {
    var build: ProgramBuild
    var workers: Int
    /// The sums of all workers.
    var work: WorkerCounters.Reading
    var turns: TurnFigures
    /// The number of open client connections.
    var connections: Int
    /// The bytes that clients and origins make the process hold.
    var heldBytes: Int
    var status: ServerStatus.Values
    var verdicts: [PinUsage.Verdicts]
    /// Of all hosts without pins together.
    var otherFailures = DomainFailures()
    var lostReports: [ReportLoss: Int]
    var lists = (counts: RevocationListFetcher.Counts(), held: RevocationListStore.Figures())
    /// The state of each credential, and the time of this, in seconds since 1970.
    var credentials: [CredentialFigures] = []
    var date: Int64 = 0
    /// nil without a collector of spans.
    var traces: SpanFigures?
    var lostLogLines: Int
    /// nil without a cache.
    var cache: CacheFigures?
    /// nil without a cache that machines share.
    var sharedCache: SharedCacheStatus?
    var process: ProcessFigures
    /// Microseconds since 1970.
    var startTime: Int64

    var text: String {
        var page = ExpositionText()
        writeProgram(&page)
        writeClients(&page)
        writeOrigins(&page)
        writePins(&page)
        writeFailures(&page)
        writeReports(&page)
        writeRevocationLists(&page)
        if !credentials.isEmpty { writeCredentials(&page) }
        if let traces { write(traces, &page) }
        if let cache { write(cache, &page) }
        if let sharedCache { write(sharedCache, &page) }
        writePolicy(&page)
        if let rules = status.snapshot.requests { write(rules, &page) }
        writeProcess(&page)
        return page.text
    }

    private func writeProgram(_ page: inout ExpositionText) {
        page.begin("pinproxy_build_info", .gauge, "The program's version and that of its OpenSSL; always 1.")
        page.sample(1, ("version", build.version), ("openssl", build.openSSL))
        page.add("pinproxy_workers", .gauge, "Event loops that serve clients.", workers)
        page.begin(
            "pinproxy_loop_turn_seconds",
            .histogram,
            "Turns of the workers' loops by their time on the processor; the sum is that of their threads."
        )
        page.histogram(bounds: TurnRecord.bounds, counts: turns.counts, sum: turns.processorTime)
        page.begin("pinproxy_draining", .gauge, "1 when it is about to end, and takes nothing new.")
        page.sample(status.isDraining)
    }

    private func write(_ rules: RequestRules, _ page: inout ExpositionText) {
        page.begin(
            "pinproxy_rule_matches_total",
            .counter,
            "Requests and hops by the rule of requests that decided, and what it says; without a rule by the policy."
        )
        for tally in rules.tallies { page.sample(tally.count, ("rule", tally.id), ("then", tally.then)) }
    }

    private func writeClients(_ page: inout ExpositionText) {
        page.begin("pinproxy_tasks_total", .counter, "Requests that are over, by the status class of the response.")
        for (name, count) in zip(WorkerCounters.Reading.statusClasses, work.tasks) {
            page.sample(count, ("status", name))
        }
        page.begin("pinproxy_task_errors_total", .counter, "Requests that ended with an error, by its stable code.")
        for (code, count) in zip(WorkerCounters.Reading.codes, work.errors) {
            page.sample(count, ("error", code.rawValue))
        }
        page.begin("pinproxy_task_duration_seconds", .histogram, "How long requests took, to the end of the response.")
        page.histogram(
            bounds: WorkerCounters.Reading.durationBounds,
            counts: work.durations,
            sum: work.durationSum
        )
        page.add(
            "pinproxy_client_received_bytes_total",
            .counter,
            "Body bytes taken from clients.",
            work.bodyBytesFromClients
        )
        page.add(
            "pinproxy_client_sent_bytes_total",
            .counter,
            "Body bytes of origins' responses that were sent to clients.",
            work.bodyBytesToClients
        )
        page.add("pinproxy_client_connections", .gauge, "Client connections that are open.", connections)
        page.add(
            "pinproxy_client_connections_total",
            .counter,
            "Client connections since the start.",
            work.clientConnections
        )
        page.add(
            "pinproxy_client_connections_refused_total",
            .counter,
            "Client connections that were one too many for limits.connections.",
            work.refusedConnections
        )
        page.add(
            "pinproxy_held_bytes",
            .gauge,
            "Bytes of heads and bodies that clients and origins make it hold.",
            heldBytes
        )
        page.add(
            "pinproxy_held_bytes_limit",
            .gauge,
            "The limit for them: limits.heldBytes.",
            status.snapshot.configuration.limits.heldBytes
        )
    }

    private func writeOrigins(_ page: inout ExpositionText) {
        page.begin(
            "pinproxy_origin_requests_total",
            .counter,
            "Requests sent to origins, by whether their connection was a new one."
        )
        page.sample(work.requestsOnNewConnections, ("connection", "new"))
        page.sample(work.requestsOnKeptConnections, ("connection", "kept"))
        page.add(
            "pinproxy_origin_sent_bytes_total",
            .counter,
            "Bytes of requests sent to origins, heads and bodies.",
            work.bytesToOrigins
        )
        page.add(
            "pinproxy_origin_received_bytes_total",
            .counter,
            "Bytes of responses received from origins, heads and bodies.",
            work.bytesFromOrigins
        )
        page.begin(
            "pinproxy_origin_handshakes_total",
            .counter,
            "TLS handshakes with origins that came to a verdict, by the verdict and the group of the key exchange."
        )
        for verdict in WorkerCounters.Reading.verdicts {
            for group in WorkerCounters.Reading.groups {
                let count = work.handshakes[WorkerCounters.Reading.place(verdict, group)]
                // A series begins at zero, where it can be told what it will be.
                guard count > 0 || group == .x25519 && (verdict == .pass || verdict == .fail) else { continue }
                page.sample(count, ("verdict", verdict.rawValue), ("group", group?.rawValue ?? "none"))
            }
        }
    }

    private func writePins(_ page: inout ExpositionText) {
        page.begin(
            "pinproxy_pin_verdicts_total",
            .counter,
            "TLS handshakes of pinned domains, by domain and verdict; a second behind at most."
        )
        for domain in verdicts {
            for (verdict, count) in zip(WorkerCounters.Reading.verdicts, domain.counts)
            where count > 0 || verdict == .pass || verdict == .fail {
                page.sample(count, ("domain", domain.domain.description), ("verdict", verdict.rawValue))
            }
        }
        let domains = status.snapshot.pinnedDomains.domains
        let pinned = domains.filter { $0.policy != nil }.count
        page.add("pinproxy_pinned_domains", .gauge, "Domains that the pin files name and do not exclude.", pinned)
        page.begin(
            "pinproxy_pin_set_expiry_timestamp_seconds",
            .gauge,
            "The first second at which a domain's pin set does not hold any more."
        )
        for domain in domains {
            guard let expiration = domain.policy?.configuration.expiration else { continue }
            page.sample(Int(expiration.end), ("domain", domain.host.description))
        }
        let chains = verdicts.compactMap { verdict in
            verdict.last?.certificateNotice.map { (domain: verdict.domain.description, notice: $0) }
        }
        page.begin(
            "pinproxy_certificate_expiry_timestamp_seconds",
            .gauge,
            "When the first certificate ends of the chain that a pinned domain's server showed last."
        )
        for (domain, notice) in chains { page.sample(Int(notice.end), ("domain", domain)) }
        page.begin(
            "pinproxy_certificate_notice_timestamp_seconds",
            .gauge,
            "From when on a certificate of that chain has less than a third, or a tenth, of its lifetime left."
        )
        for (domain, notice) in chains {
            page.sample(Int(notice.thirdFrom), ("domain", domain), ("left", "third"))
            page.sample(Int(notice.tenthFrom), ("domain", domain), ("left", "tenth"))
        }
    }

    /// The failures of pinned domains, and under `*` those of all other hosts together: hosts that clients choose are no labels.
    private func writeFailures(_ page: inout ExpositionText) {
        let policies = Dictionary(
            status.snapshot.pinnedDomains.domains.compactMap { domain in
                domain.policy.map { (domain.host, $0.configuration) }
            }
        ) { first, _ in first }
        page.begin(
            "pinproxy_pin_failures_total",
            .counter,
            "Refused TLS handshakes with origins, by pinned domain (* for all other hosts) and reason."
        )
        for domain in verdicts {
            let hasEnd = policies[domain.domain]?.expiration != nil
            for (reason, count) in zip(TrustFailure.allCases, domain.failures.refusals) {
                // A series that an alarm asks for begins at zero, where the first failure can be told from none.
                let isAskedFor =
                    reason == .pinMismatch || reason == .certificateHostMismatch || reason == .pinSetExpired && hasEnd
                guard count > 0 || isAskedFor else { continue }
                page.sample(count, ("domain", domain.domain.description), ("reason", reason.rawValue))
            }
        }
        for (reason, count) in zip(TrustFailure.allCases, otherFailures.refusals)
        where count > 0 || reason == .certificateUntrusted || reason == .certificateHostMismatch {
            page.sample(count, ("domain", "*"), ("reason", reason.rawValue))
        }
        page.begin(
            "pinproxy_pin_backup_matches_total",
            .counter,
            "TLS handshakes in which only a backup pin has matched, by pinned domain."
        )
        for domain in verdicts
        where domain.failures.backupOnly > 0 || policies[domain.domain]?.pins.contains(where: \.isBackup) == true {
            page.sample(domain.failures.backupOnly, ("domain", domain.domain.description))
        }
        page.begin(
            "pinproxy_connect_failures_total",
            .counter,
            "Requests that got no connection to their origin, by pinned domain (* for all other hosts) and error."
        )
        func write(_ failures: DomainFailures, _ domain: String) {
            for (error, count) in zip(DomainFailures.connectErrors, failures.unconnected)
            where count > 0 || error == .connectFailed {
                page.sample(count, ("domain", domain), ("error", error.rawValue))
            }
        }
        for domain in verdicts { write(domain.failures, domain.domain.description) }
        write(otherFailures, "*")
    }

    private func writeReports(_ page: inout ExpositionText) {
        page.begin(
            "pinproxy_reports_dropped_total",
            .counter,
            "Reports of failed pins that were not delivered, by reason; a minute behind at most."
        )
        for loss in ReportLoss.allCases { page.sample(lostReports[loss] ?? 0, ("reason", loss.rawValue)) }
        page.add(
            "pinproxy_log_lines_lost_total",
            .counter,
            "Lines of the task log that could not be written, or for which its reader was too slow.",
            lostLogLines
        )
    }

    private func writeRevocationLists(_ page: inout ExpositionText) {
        page.begin(
            "pinproxy_revocation_lists",
            .gauge,
            "Fetched revocation lists that are held, by whether they are in force."
        )
        page.sample(lists.held.current, ("state", "current"))
        page.sample(lists.held.expired, ("state", "expired"))
        page.add("pinproxy_revocation_list_bytes", .gauge, "Bytes of these lists.", lists.held.bytes)
        page.begin(
            "pinproxy_revocation_list_fetches_total",
            .counter,
            "Fetches of revocation lists, by what came of them."
        )
        page.sample(lists.counts.fetched, ("result", "fetched"))
        page.sample(lists.counts.unchanged, ("result", "unchanged"))
        page.sample(lists.counts.failed, ("result", "failed"))
        page.begin(
            "pinproxy_revocation_list_last_success_timestamp_seconds",
            .gauge,
            "When a revocation list was fetched last; 0 for never."
        )
        page.sample(Int(lists.counts.lastSuccess))
    }

    private func writeCredentials(_ page: inout ExpositionText) {
        page.begin(
            "pinproxy_credential_renewals_total",
            .counter,
            "Runs of the sources of credentials, by what came of them."
        )
        for credential in credentials {
            page.sample(credential.renewals, ("credential", credential.name), ("result", "success"))
            for code in CredentialFault.Code.allCases where code != .ended {
                page.sample(credential.failures[code] ?? 0, ("credential", credential.name), ("result", code.rawValue))
            }
        }
        page.begin(
            "pinproxy_credential_expires_seconds",
            .gauge,
            "Seconds until the end of a credential's value; 0 without a value, none for one without an end."
        )
        for credential in credentials where !credential.hasValue || credential.end != nil {
            let left = credential.hasValue ? credential.end.map { max($0.subtractingSaturated(date), 0) } ?? 0 : 0
            page.sample(Int(left), ("credential", credential.name))
        }
    }

    private func write(_ traces: SpanFigures, _ page: inout ExpositionText) {
        page.add(
            "pinproxy_traced_requests_total",
            .counter,
            "Sampled requests whose spans the collector has.",
            traces.delivered
        )
        page.begin(
            "pinproxy_traced_requests_dropped_total",
            .counter,
            "Sampled requests whose spans were not delivered, by reason."
        )
        for loss in SpanLoss.allCases { page.sample(traces.lost[loss] ?? 0, ("reason", loss.rawValue)) }
    }

    private func write(_ cache: CacheFigures, _ page: inout ExpositionText) {
        page.begin("pinproxy_cache_requests_total", .counter, "Requests that used the cache, by outcome.")
        for request in cache.requests { page.sample(request.count, ("outcome", request.outcome.rawValue)) }
        page.add("pinproxy_cache_stored_total", .counter, "Responses of origins that were stored.", cache.counts.stored)
        page.add(
            "pinproxy_cache_collapsed_total",
            .counter,
            "Requests that got the response to another request.",
            cache.counts.collapsed
        )
        if !cache.hosts.isEmpty {
            page.begin(
                "pinproxy_cache_host_requests_total",
                .counter,
                "Requests that used the cache, by host and outcome."
            )
            for host in cache.hosts {
                for request in CacheFigures.requests(host.counts) where request.count > 0 {
                    page.sample(request.count, ("host", host.host), ("outcome", request.outcome.rawValue))
                }
            }
        }
        if !cache.rules.isEmpty {
            page.begin(
                "pinproxy_cache_rule_matches_total",
                .counter,
                "Requests and responses that a rule has decided about."
            )
            for rule in cache.rules { page.sample(rule.matches, ("host", rule.entry), ("rule", "\(rule.place)")) }
        }
        func each(_ memory: Int, _ disk: Int?) {
            page.sample(memory, ("store", "memory"))
            if let disk { page.sample(disk, ("store", "disk")) }
        }
        let disk = cache.disk?.statistics
        page.begin("pinproxy_cache_entries", .gauge, "Responses that are stored.")
        each(cache.memory.entries, disk?.entries)
        page.begin("pinproxy_cache_bytes", .gauge, "Bytes that they take up.")
        each(cache.memory.bytes, disk?.bytes)
        page.begin("pinproxy_cache_capacity_bytes", .gauge, "Bytes that they may take up.")
        each(cache.memoryCapacity, cache.disk?.capacity)
        page.begin("pinproxy_cache_evictions_total", .counter, "Responses that were removed to make room for others.")
        each(cache.memory.evictions, disk?.evictions)
        page.begin(
            "pinproxy_cache_purged_total",
            .counter,
            "Responses that were purged: removed, or made stale."
        )
        page.sample(cache.purged.removed, ("effect", "removed"))
        page.sample(cache.purged.expired, ("effect", "stale"))
        if let disk {
            page.begin("pinproxy_cache_disk_up", .gauge, "0 while the disk cannot be used.")
            page.sample(disk.offBecause == nil)
        }
    }

    private func write(_ shared: SharedCacheStatus, _ page: inout ExpositionText) {
        page.begin("pinproxy_shared_cache_lookups_total", .counter, "Look-ups in Redis, by what came of them.")
        for lookUp in shared.lookUps { page.sample(lookUp.count, ("result", lookUp.result)) }
        page.begin("pinproxy_shared_cache_failures_total", .counter, "Look-ups in Redis that failed, by reason.")
        for (reason, count) in Self.counts(shared.failures, from: SharedCacheStatus.reasonsOfFailure) {
            page.sample(count, ("reason", reason))
        }
        page.begin("pinproxy_shared_cache_lookup_seconds", .summary, "How long look-ups in Redis took.")
        page.summary(count: shared.lookUps.reduce(0) { $0 + $1.count }, sum: shared.lookUpMicroseconds)
        page.add("pinproxy_shared_cache_stored_total", .counter, "Responses that were stored in Redis.", shared.stored)
        page.begin(
            "pinproxy_shared_cache_not_stored_total",
            .counter,
            "Responses for several users that were not stored in Redis, by reason."
        )
        for (reason, count) in Self.counts(shared.notStored, from: SharedCacheStatus.reasonsAgainstStoring) {
            page.sample(count, ("reason", reason))
        }
        page.add(
            "pinproxy_shared_cache_tampered_total",
            .counter,
            "Records in Redis that were not made with this key, or not for their place.",
            shared.tampered
        )
        page.begin(
            "pinproxy_shared_cache_waits_total",
            .counter,
            "Requests that waited while another machine asked the origin, by whether they got its response."
        )
        page.sample(max(shared.waited - shared.waitedInVain, 0), ("result", "served"))
        page.sample(shared.waitedInVain, ("result", "vain"))
        page.add(
            "pinproxy_shared_cache_invalidations_failed_total",
            .counter,
            "Invalidations by unsafe methods that Redis has not confirmed in time.",
            shared.invalidationsFailed
        )
        page.begin(
            "pinproxy_shared_cache_purges_total",
            .counter,
            "Purges, by whether this machine has published them or learned of them."
        )
        page.sample(shared.purgesPublished, ("direction", "published"))
        page.sample(shared.purgesLearned, ("direction", "learned"))
        page.add(
            "pinproxy_shared_cache_purges_pending",
            .gauge,
            "Purges and invalidations that wait for Redis.",
            shared.purgesPending
        )
        page.begin("pinproxy_shared_cache_server_up", .gauge, "0 while a server of Redis is of no use.")
        for server in shared.serversInOrder { page.sample(server.reason == nil, ("server", server.name)) }
    }

    /// The counts of known reasons, from zero on, then those of others.
    private static func counts(_ counts: [String: Int], from known: [String]) -> [(reason: String, count: Int)] {
        (known + counts.keys.filter { !known.contains($0) }.sorted()).map { ($0, counts[$0] ?? 0) }
    }

    private func writePolicy(_ page: inout ExpositionText) {
        let reloads = status.reloads
        page.add(
            "pinproxy_policy_generation",
            .gauge,
            "Which policy is in force: counted from 1, the start's.",
            status.snapshot.generation
        )
        page.begin(
            "pinproxy_policy_load_timestamp_seconds",
            .gauge,
            "When the policy in force was loaded."
        )
        page.sample(Int(reloads.lastLoad))
        page.add("pinproxy_reloads_total", .counter, "Reloads that took effect.", reloads.applied)
        page.begin(
            "pinproxy_reload_failures_total",
            .counter,
            "Reloads that changed nothing, by what was wrong."
        )
        for (failure, count) in zip(ReloadFailure.allCases, reloads.failures) {
            page.sample(count, ("reason", failure.rawValue))
        }
        page.begin(
            "pinproxy_last_reload_successful",
            .gauge,
            "0 when the files have changed and could not be taken in."
        )
        page.sample(!reloads.hasLastFailed)
        if let files = status.files {
            page.begin(
                "pinproxy_policy_files_current",
                .gauge,
                "0 while the policy in force is not that of the files on the disk."
            )
            page.sample(files.isCurrent)
        }
        page.add(
            "pinproxy_dropped_pins_total",
            .counter,
            "Hosts that were protected more before a reload than after.",
            reloads.droppedPins
        )
        page.begin(
            "pinproxy_restart_needed",
            .gauge,
            "1 for a key of the configuration whose new value waits for a restart."
        )
        for need in RestartNeed.allCases {
            page.sample(reloads.restartNeeds.contains(need), ("key", need.rawValue))
        }
    }

    private func writeProcess(_ page: inout ExpositionText) {
        page.begin("process_cpu_seconds_total", .counter, "Processor time, of the program and of the system for it.")
        page.sample(microseconds: process.processorTime)
        page.begin("process_start_time_seconds", .gauge, "When the process was started.")
        page.sample(microseconds: Int(startTime))
        page.add("process_resident_memory_bytes", .gauge, "Memory in RAM.", process.residentBytes)
        page.add("process_virtual_memory_bytes", .gauge, "Memory mapped.", process.virtualBytes)
        page.add("process_open_fds", .gauge, "Open descriptors.", process.openDescriptors)
        page.add("process_max_fds", .gauge, "The limit of open descriptors.", process.maximalDescriptors)
        page.add("process_threads", .gauge, "Threads.", process.threads)
    }
}
