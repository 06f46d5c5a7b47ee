// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust
import SharedCaching
import TestSupport
import Testing

@testable import ProxyAdmin
@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("The page of metrics")
struct MetricsPageTests {
    /// The metrics page for a snapshot of these pin files.
    private func page(
        _ domains: String,
        change: (inout MetricsPage) -> Void = { _ in }
    ) throws -> String {
        let pinned = try PinFile.load(
            text: "{ \"version\": 1, \"pinnedDomains\": { \(domains) } }",
            file: "p.json",
            at: 1_800_000_000
        ).domains
        let snapshot = PolicySnapshot(
            PolicyParts(
                configuration: Configuration(),
                pinnedDomains: pinned,
                trustAnchors: TrustAnchors(certificates: [])
            ),
            generation: 4
        )
        var usage = PinUsage()
        usage.setPins(of: pinned)
        var page = MetricsPage(
            build: ProgramBuild(version: "1.2.3", openSSL: "OpenSSL 3.0"),
            workers: 2,
            work: WorkerCounters().reading,
            turns: TurnFigures(),
            connections: 5,
            heldBytes: 262_144,
            status: ServerStatus(snapshot, loadedAt: 1_800_000_000).current,
            verdicts: usage.verdicts,
            lostReports: [:],
            lostLogLines: 0,
            process: .read(),
            startTime: 1_800_000_000_500_000
        )
        change(&page)
        return page.text
    }

    private static func domain(_ name: String, _ members: String = "") -> String {
        let pins = [PublicKeyPin.unrelated(1), .unrelated(2)].map { "\"\($0)\"" }.joined(separator: ", ")
        return "\"\(name)\": { \"pins\": [\(pins)]\(members) }"
    }

    /// A cache with numbers of its own for everything.
    private static var cacheFigures: CacheFigures {
        var figures = CacheFigures(ResponseCache(CacheStore(memory: MemoryStore(capacity: 1000), CacheOptions())))
        figures.counts.hits = 1
        figures.counts.stale = 2
        figures.counts.revalidated = 3
        figures.counts.misses = 4
        figures.counts.bypassed = 5
        figures.counts.stored = 6
        figures.counts.collapsed = 7
        figures.purged.removed = 14
        figures.purged.expired = 15
        figures.memory.entries = 8
        figures.memory.bytes = 9
        figures.memory.evictions = 10
        var disk = DiskStore.Statistics()
        disk.entries = 11
        disk.bytes = 12
        disk.evictions = 13
        figures.disk = CacheFigures.Disk(path: "/var/cache/p", statistics: disk, capacity: 2000)
        return figures
    }

    @Test("the cache's metrics exist where it does, with the disk's state")
    func cache() throws {
        func lines(_ figures: CacheFigures?) throws -> [String] {
            try page(Self.domain("a.example")) { $0.cache = figures }.split(separator: "\n").map(String.init)
                .filter { $0.hasPrefix("pinproxy_cache") }
        }
        #expect(try lines(nil) == [])
        var figures = Self.cacheFigures
        #expect(
            try lines(figures) == [
                "pinproxy_cache_requests_total{outcome=\"hit\"} 1",
                "pinproxy_cache_requests_total{outcome=\"stale\"} 2",
                "pinproxy_cache_requests_total{outcome=\"revalidated\"} 3",
                "pinproxy_cache_requests_total{outcome=\"miss\"} 4",
                "pinproxy_cache_requests_total{outcome=\"bypass\"} 5", "pinproxy_cache_stored_total 6",
                "pinproxy_cache_collapsed_total 7", "pinproxy_cache_entries{store=\"memory\"} 8",
                "pinproxy_cache_entries{store=\"disk\"} 11", "pinproxy_cache_bytes{store=\"memory\"} 9",
                "pinproxy_cache_bytes{store=\"disk\"} 12", "pinproxy_cache_capacity_bytes{store=\"memory\"} 1000",
                "pinproxy_cache_capacity_bytes{store=\"disk\"} 2000",
                "pinproxy_cache_evictions_total{store=\"memory\"} 10",
                "pinproxy_cache_evictions_total{store=\"disk\"} 13",
                "pinproxy_cache_purged_total{effect=\"removed\"} 14",
                "pinproxy_cache_purged_total{effect=\"stale\"} 15", "pinproxy_cache_disk_up 1",
            ]
        )
        figures.disk?.statistics.offBecause = "full"
        #expect(try lines(figures).last == "pinproxy_cache_disk_up 0")
        figures.disk = nil
        #expect(try lines(figures).filter { $0.contains("disk") } == [])
    }

    /// A shared cache with numbers of its own for everything.
    private static var sharedCache: SharedCacheStatus {
        var shared = SharedCacheStatus()
        (shared.hits, shared.misses, shared.timeouts, shared.stored, shared.tampered) = (1, 47, 3, 4, 5)
        (shared.waited, shared.waitedInVain, shared.invalidationsFailed) = (9, 2, 6)
        (shared.purgesPublished, shared.purgesLearned, shared.purgesPending) = (10, 11, 12)
        shared.failures = ["busy": 13, "connection": 14, "other": 15]
        shared.notStored = ["tooLarge": 16]
        shared.lookUpMicroseconds = 1_500_000
        shared.servers = ["b.test:6379": "READONLY", "a.test:6379": nil]
        return shared
    }

    @Test("the shared cache's metrics exist where it does, from the start for alarms")
    func shared() throws {
        func lines(_ shared: SharedCacheStatus?) throws -> [String] {
            try page(Self.domain("a.example")) { $0.sharedCache = shared }.split(separator: "\n").map(String.init)
                .filter { $0.hasPrefix("pinproxy_shared_cache") }
        }
        #expect(try lines(nil) == [])
        #expect(
            try lines(Self.sharedCache) == [
                "pinproxy_shared_cache_lookups_total{result=\"hit\"} 1",
                "pinproxy_shared_cache_lookups_total{result=\"miss\"} 2",
                "pinproxy_shared_cache_lookups_total{result=\"timeout\"} 3",
                "pinproxy_shared_cache_lookups_total{result=\"failed\"} 42",
                "pinproxy_shared_cache_failures_total{reason=\"connection\"} 14",
                "pinproxy_shared_cache_failures_total{reason=\"malformed\"} 0",
                "pinproxy_shared_cache_failures_total{reason=\"refused\"} 0",
                "pinproxy_shared_cache_failures_total{reason=\"busy\"} 13",
                "pinproxy_shared_cache_failures_total{reason=\"closed\"} 0",
                "pinproxy_shared_cache_failures_total{reason=\"other\"} 15",
                "pinproxy_shared_cache_lookup_seconds_sum 1.5", "pinproxy_shared_cache_lookup_seconds_count 48",
                "pinproxy_shared_cache_stored_total 4",
                "pinproxy_shared_cache_not_stored_total{reason=\"tooLarge\"} 16",
                "pinproxy_shared_cache_not_stored_total{reason=\"useless\"} 0",
                "pinproxy_shared_cache_not_stored_total{reason=\"busy\"} 0",
                "pinproxy_shared_cache_not_stored_total{reason=\"changed\"} 0",
                "pinproxy_shared_cache_not_stored_total{reason=\"failed\"} 0",
                "pinproxy_shared_cache_tampered_total 5",
                "pinproxy_shared_cache_waits_total{result=\"served\"} 7",
                "pinproxy_shared_cache_waits_total{result=\"vain\"} 2",
                "pinproxy_shared_cache_invalidations_failed_total 6",
                "pinproxy_shared_cache_purges_total{direction=\"published\"} 10",
                "pinproxy_shared_cache_purges_total{direction=\"learned\"} 11",
                "pinproxy_shared_cache_purges_pending 12",
                "pinproxy_shared_cache_server_up{server=\"a.test:6379\"} 1",
                "pinproxy_shared_cache_server_up{server=\"b.test:6379\"} 0",
            ]
        )
    }

    @Test("every sample belongs to its metric, and no series is repeated")
    func form() throws {
        let lines = try page(Self.domain("a.example")) { page in
            page.cache = Self.cacheFigures
            page.sharedCache = Self.sharedCache
        }.split(separator: "\n").map(String.init)
        var current = ""
        var seen: Set<String> = []
        var series: Set<String> = []
        for line in lines {
            if let match = line.wholeMatch(of: /# HELP ([a-z_]+) .+/) {
                current = String(match.1)
                #expect(seen.insert(current).inserted, "\(line)")
            } else if let match = line.wholeMatch(of: /# TYPE ([a-z_]+) (counter|gauge|histogram|summary)/) {
                #expect(String(match.1) == current)
                if match.2 == "counter" { #expect(current.hasSuffix("_total")) }
            } else {
                let match = try #require(
                    line.wholeMatch(
                        of: /([a-z_]+?)(_bucket|_sum|_count)?(\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})? -?[0-9.]+/
                    ),
                    "\(line)"
                )
                #expect(String(match.1) == current, "\(line)")
                #expect(series.insert(String(line.prefix { $0 != " " })).inserted, "\(line)")
            }
        }
        #expect(seen.contains("process_open_fds") && series.contains("pinproxy_tasks_total{status=\"2xx\"}"))
    }

    @Test("turns of the loops are a histogram of seconds on the processor")
    func turns() throws {
        let text = try page(Self.domain("a.example")) { page in
            page.turns.counts[0] = 900
            page.turns.counts[3] = 2
            page.turns.counts[TurnRecord.bounds.count] = 1
            page.turns.processorTime = 34_500_000
        }
        let lines = text.split(separator: "\n").filter { $0.hasPrefix("pinproxy_loop_turn_seconds_") }
        #expect(lines.first == "pinproxy_loop_turn_seconds_bucket{le=\"0.001\"} 900")
        #expect(lines.contains("pinproxy_loop_turn_seconds_bucket{le=\"0.01\"} 902"))
        #expect(
            lines.suffix(4) == [
                "pinproxy_loop_turn_seconds_bucket{le=\"10\"} 902",
                "pinproxy_loop_turn_seconds_bucket{le=\"+Inf\"} 903",
                "pinproxy_loop_turn_seconds_sum 34.5", "pinproxy_loop_turn_seconds_count 903",
            ]
        )
    }

    @Test("verdicts are counted by pinned domain, from the start for alarms")
    func verdicts() throws {
        let text = try page(Self.domain("a.example") + "," + Self.domain("b.example")) { page in
            page.verdicts[0] = PinUsage.Verdicts(domain: page.verdicts[0].domain, counts: [3, 0, 2, 0, 0, 0])
        }
        let lines = text.split(separator: "\n").filter { $0.hasPrefix("pinproxy_pin_verdicts_total{") }
        #expect(
            lines == [
                "pinproxy_pin_verdicts_total{domain=\"a.example\",verdict=\"pass\"} 3",
                "pinproxy_pin_verdicts_total{domain=\"a.example\",verdict=\"fail\"} 0",
                "pinproxy_pin_verdicts_total{domain=\"a.example\",verdict=\"reportOnly\"} 2",
                "pinproxy_pin_verdicts_total{domain=\"b.example\",verdict=\"pass\"} 0",
                "pinproxy_pin_verdicts_total{domain=\"b.example\",verdict=\"fail\"} 0",
            ]
        )
    }

    @Test("failures are counted by pinned domain, from the start for alarms")
    func failures() throws {
        let backup = "{ \"spki-sha256\": \"\(PublicKeyPin.unrelated(2).base64)\", \"backup\": true }"
        let pins = "\"pins\": [\"\(PublicKeyPin.unrelated(1))\", \(backup)]"
        let domains = [
            Self.domain("a.example"), "\"b.example\": { \(pins), \"expiration\": \"2027-01-31\" }",
            "\"none.example\": { \"pinningMode\": \"none\" }",
        ]
        let text = try page(domains.joined(separator: ",")) { page in
            page.verdicts[0].failures.note(.proxyRefused, at: 1_800_000_000)
            page.otherFailures.note(.dnsTimeout, at: 1_800_000_000)
            page.otherFailures.note(.dnsTimeout, at: 1_800_000_000)
            page.otherFailures.note(.requestInvalid, at: 1_800_000_000)
        }
        let lines = text.split(separator: "\n").map(String.init).filter {
            $0.hasPrefix("pinproxy_pin_failures") || $0.hasPrefix("pinproxy_pin_backup")
                || $0.hasPrefix("pinproxy_connect")
        }
        #expect(
            lines == [
                #"pinproxy_pin_failures_total{domain="a.example",reason="pin_mismatch"} 0"#,
                #"pinproxy_pin_failures_total{domain="a.example",reason="certificate_host_mismatch"} 0"#,
                #"pinproxy_pin_failures_total{domain="b.example",reason="pin_mismatch"} 0"#,
                #"pinproxy_pin_failures_total{domain="b.example",reason="pin_set_expired"} 0"#,
                #"pinproxy_pin_failures_total{domain="b.example",reason="certificate_host_mismatch"} 0"#,
                #"pinproxy_pin_failures_total{domain="*",reason="certificate_untrusted"} 0"#,
                #"pinproxy_pin_failures_total{domain="*",reason="certificate_host_mismatch"} 0"#,
                #"pinproxy_pin_backup_matches_total{domain="b.example"} 0"#,
                #"pinproxy_connect_failures_total{domain="a.example",error="connect_failed"} 0"#,
                #"pinproxy_connect_failures_total{domain="a.example",error="proxy_refused"} 1"#,
                #"pinproxy_connect_failures_total{domain="b.example",error="connect_failed"} 0"#,
                #"pinproxy_connect_failures_total{domain="*",error="dns_timeout"} 2"#,
                #"pinproxy_connect_failures_total{domain="*",error="connect_failed"} 0"#,
            ]
        )
    }

    @Test("the end of a pin set is the first second after its last day")
    func expiry() throws {
        let domains =
            Self.domain("a.example", ", \"expiration\": \"2027-01-31\"") + "," + Self.domain("b.example")
            + ", \"c.b.example\": { \"excludeFromParentPolicy\": true }"
        let lines = try page(domains).split(separator: "\n")
        let ends = lines.filter { $0.hasPrefix("pinproxy_pin_set_expiry_timestamp_seconds{") }
        #expect(ends == ["pinproxy_pin_set_expiry_timestamp_seconds{domain=\"a.example\"} 1801440000"])
        #expect(lines.contains("pinproxy_pinned_domains 2"))
    }

    @Test("the end of each domain's last chain is shown, with its warning time")
    func certificates() throws {
        let (begin, end) = (Int64(1_800_000_000), Int64(1_800_000_000 + 60 * 86_400))
        let pki = try TestPKI()
        let server = try pki.server(CertificateBuilder.server(hosts: ["a.example"], validity: begin..<end))
        let host = try Host("a.example")
        let evaluation = try SecurityPolicy.pinning(server.pin)
            .evaluate(chain: server.chain, host: host, anchors: pki.anchors, at: begin)
        let lines = try page(Self.domain("a.example") + "," + Self.domain("b.example")) { page in
            page.verdicts[0].last = LastHandshake(evaluation, at: begin)
        }.split(separator: "\n").filter { $0.hasPrefix("pinproxy_certificate_") }
        #expect(
            lines == [
                "pinproxy_certificate_expiry_timestamp_seconds{domain=\"a.example\"} \(end)",
                "pinproxy_certificate_notice_timestamp_seconds{domain=\"a.example\",left=\"third\"} \(end - 20 * 86_400)",
                "pinproxy_certificate_notice_timestamp_seconds{domain=\"a.example\",left=\"tenth\"} \(end - 6 * 86_400)",
            ]
        )
    }

    @Test("runs of credentials are counted, and their remaining times shown")
    func credentials() throws {
        let text = try page(Self.domain("a.example")) { page in
            page.date = 1_800_000_000
            var good = CredentialFigures(name: "good")
            (good.hasValue, good.end, good.renewals, good.failures) = (true, 1_800_000_060, 3, [.timeout: 2])
            var endless = CredentialFigures(name: "endless")
            endless.hasValue = true
            var past = CredentialFigures(name: "past")
            (past.hasValue, past.end) = (true, .min)
            page.credentials = [good, endless, past, CredentialFigures(name: "none")]
        }
        let lines = text.split(separator: "\n").map(String.init)
        for line in [
            #"pinproxy_credential_renewals_total{credential="good",result="success"} 3"#,
            #"pinproxy_credential_renewals_total{credential="good",result="timeout"} 2"#,
            #"pinproxy_credential_renewals_total{credential="none",result="refused"} 0"#,
        ] {
            #expect(lines.contains(line), "\(line)")
        }
        #expect(
            lines.filter { $0.hasPrefix("pinproxy_credential_expires_seconds{") } == [
                #"pinproxy_credential_expires_seconds{credential="good"} 60"#,
                #"pinproxy_credential_expires_seconds{credential="past"} 0"#,
                #"pinproxy_credential_expires_seconds{credential="none"} 0"#,
            ]
        )
        #expect(try !page(Self.domain("a.example")).contains("pinproxy_credential"))
    }

    @Test("reloads, their failures and their omissions are counted")
    func reloads() throws {
        let text = try page(Self.domain("a.example")) { page in
            page.status.reloads.noteReload(at: 1_800_000_100, needs: [.admin])
            page.status.reloads.note(.configuration)
            page.status.reloads.note(.configuration)
            page.status.reloads.droppedPins = 6
            page.status.isDraining = true
            page.lostReports = [.undelivered: 9]
            page.lostLogLines = 77
            page.lists.counts.fetched = 3
            page.lists.counts.failed = 2
            page.lists.counts.lastSuccess = 1_800_000_001
            page.lists.held.current = 4
            page.lists.held.bytes = 512
        }
        for line in [
            "pinproxy_revocation_lists{state=\"current\"} 4", "pinproxy_revocation_list_bytes 512",
            "pinproxy_revocation_list_fetches_total{result=\"fetched\"} 3",
            "pinproxy_revocation_list_fetches_total{result=\"failed\"} 2",
            "pinproxy_revocation_list_last_success_timestamp_seconds 1800000001",
            "pinproxy_build_info{version=\"1.2.3\",openssl=\"OpenSSL 3.0\"} 1", "pinproxy_policy_generation 4",
            "pinproxy_policy_load_timestamp_seconds 1800000100", "pinproxy_reloads_total 1",
            "pinproxy_reload_failures_total{reason=\"configuration\"} 2",
            "pinproxy_reload_failures_total{reason=\"log\"} 0", "pinproxy_last_reload_successful 0",
            "pinproxy_dropped_pins_total 6", "pinproxy_restart_needed{key=\"admin\"} 1",
            "pinproxy_restart_needed{key=\"workers\"} 0", "pinproxy_draining 1", "pinproxy_client_connections 5",
            "process_start_time_seconds 1800000000.5", "pinproxy_reports_dropped_total{reason=\"undelivered\"} 9",
            "pinproxy_reports_dropped_total{reason=\"queueFull\"} 0", "pinproxy_log_lines_lost_total 77",
        ] {
            #expect(text.contains("\n\(line)\n"), "\(line)")
        }
    }

    @Test("with a collector there are figures of its spans, without one there are none")
    func traces() throws {
        let text = try page(Self.domain("a.example")) { page in
            page.traces = SpanFigures(delivered: 7, lost: [.queueFull: 3])
        }
        for line in [
            "pinproxy_traced_requests_total 7", "pinproxy_traced_requests_dropped_total{reason=\"queueFull\"} 3",
            "pinproxy_traced_requests_dropped_total{reason=\"stopped\"} 0",
        ] {
            #expect(text.contains("\n\(line)\n"), "\(line)")
        }
        #expect(try !page(Self.domain("a.example")).contains("traced"))
    }

    @Test("a successful reload clears the failed ones")
    func recovery() {
        var account = ReloadAccount()
        account.note(.log)
        #expect(account.hasLastFailed)
        account.noteReload(at: 7, needs: [])
        #expect(!account.hasLastFailed && account.lastLoad == 7 && account.applied == 1)
        #expect(account.failures == [0, 0, 1, 0])
    }
}
