// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore
import IOCore
import ServerTrust
import StrictJSON
import TestSupport

@testable import ProxyAdmin
@testable import ProxyConfiguration
@testable import ProxyCore

/// The documents of the admin listener, made of whatever servers, requests and certificates were seen. Every local user may ask for
/// them, so nothing that a peer has sent may end or hold up the process that makes them.
///
/// An input is a program: eight bytes of the time, then steps of a kind, a length of two bytes and a content. After the last
/// step all documents are made.
final class AdminProperties {
    private let anchors: TrustAnchors
    private let snapshot: PolicySnapshot
    private let domains: PinnedDomains
    private let hosts: [Host]

    /// Seconds on the processor that documents may take. A document of all that an input can hold takes milliseconds.
    private static let patience: UInt64 = 2_000_000_000

    init(_ pki: FuzzPKI) throws {
        anchors = pki.pki.anchors
        let pins = "\"pins\": [\"\(PublicKeyPin.unrelated(1))\", \"\(PublicKeyPin.unrelated(2))\"]"
        domains = try PinFile.load(
            text: """
                { "version": 1, "pinnedDomains": {
                    "a.example": { \(pins), "includeSubdomains": true, "expiration": "2027-01-31" },
                    "b.example": { \(pins), "enforcePinning": false },
                    "c.example": { "pins": ["\(pki.server.certificate.publicKeyPin)", "\(PublicKeyPin.unrelated(3))"],
                        "allowInvalidCertificates": true } } }
                """,
            file: "p.json",
            at: 0
        ).domains
        hosts = try ["a.example", "x.a.example", "b.example", "c.example"].map { try Host($0) }
        let parts = PolicyParts(configuration: Configuration(), pinnedDomains: domains, trustAnchors: anchors)
        snapshot = PolicySnapshot(parts, generation: 1)
    }

    func documents(_ bytes: [UInt8]) throws(FuzzFinding) {
        let start = Clock.processorTimeOfThread
        var input = bytes[...]
        let now = Int64(truncatingIfNeeded: Self.number(&input, 8))
        var usage = PinUsage()
        usage.setPins(of: domains)
        let recent = RecentTasks()
        while let kind = input.popFirst() {
            let count = Int(Self.number(&input, 2))
            let content = Array(input.prefix(count))
            input = input.dropFirst(count)
            switch kind & 3 {
            case 0: try handshake(content, Int(kind >> 2), at: now, &usage)
            case 1: note(content, kind >> 2, in: recent)
            case 2: request(content)
            default: _ = domains.policy(host: hosts[0], port: 443)?.configuration
            }
        }
        var status = ServerStatus(snapshot, loadedAt: now).current
        status.reloads.lastLoad = now
        try check(Array(PolicyDocuments.policy(status, usage.verdicts, at: now).utf8), "/policy")
        try check(Array(PolicyDocuments.reloads(status).utf8), "/reloads")
        try check(Array(copying: TaskDocuments.tasks(recent, limit: 1000).bytes), "/tasks")
        try check(Array(copying: TaskDocuments.archive(recent, limit: 1000, version: "1").bytes), "/tasks.har")
        let spent = Clock.processorTimeOfThread &- start
        guard spent < Self.patience else { throw FuzzFinding("the documents took \(spent / 1_000_000) ms") }
    }

    private static func number(_ input: inout ArraySlice<UInt8>, _ count: Int) -> UInt64 {
        (0..<count).reduce(0) { sum, _ in sum << 8 | UInt64(input.popFirst() ?? 0) }
    }

    // MARK: Steps

    /// A server shows certificates; what of it is kept goes the way of a handshake's result.
    private func handshake(
        _ content: [UInt8],
        _ number: Int,
        at now: Int64,
        _ usage: inout PinUsage
    ) throws(FuzzFinding) {
        guard let chain = try? Certificate.certificates(in: content), let first = chain.first else { return }
        let host = hosts[number % hosts.count]
        guard let policy = domains.policy(host: host, port: 443), let domain = policy.configuration.domain else {
            return
        }
        let evaluation = policy.evaluate(chain: chain, host: host, anchors: anchors, at: now)
        guard first.publicKeyPin == evaluation.offeredPins.first?.pin else {
            throw FuzzFinding("the offered keys are not those of the chain")
        }
        var verdicts = Array(repeating: 0, count: TrustEvaluation.Verdict.allCases.count)
        if let index = TrustEvaluation.Verdict.allCases.firstIndex(of: evaluation.verdict) { verdicts[index] = 1 }
        usage.count(
            1,
            of: domain,
            matched: evaluation.matchedPin.map { [(pin: $0, count: 1)] } ?? [],
            verdicts: verdicts,
            last: LastHandshake(evaluation, at: now)
        )
        if let report = PinValidationReport(evaluation, of: policy, port: 443, at: now) {
            try check(Array(report.json.utf8), "the report")
        }
        guard ERR_peek_error() == 0 else { throw FuzzFinding("an entry is left in OpenSSL's error queue") }
    }

    /// A task ends whose line holds what a client and a server have sent: one text and one number for all members.
    private func note(_ content: [UInt8], _ kind: UInt8, in recent: RecentTasks) {
        let text = String(decoding: content.dropFirst(8), as: UTF8.self)
        var first = content[...]
        let number = Double(bitPattern: Self.number(&first, 8))
        // JSON has no other numbers.
        let shown = number.isFinite ? "\(number)" : "0"
        var transaction = JSONLine()
        transaction.add("url", text)
        transaction.add("status", number: kind & 1 == 0 ? "200" : shown)
        for name in [
            "fetchStart", "domainLookupStart", "domainLookupEnd", "connectStart", "secureConnectionStart",
            "secureConnectionEnd", "connectEnd", "requestStart", "requestEnd", "responseStart", "responseEnd",
            "requestHeaderBytesSent", "requestBodyBytesSent", "responseHeaderBytesReceived",
            "responseBodyBytesReceived",
        ] { transaction.add(name, number: shown) }
        transaction.add("remoteAddress", text)
        transaction.add("networkProtocolName", text)
        var line = JSONLine()
        // It is always the proxy's own.
        line.add("time", "2026-11-21T06:00:00.123Z")
        line.add("event", "task")
        for name in ["client", "method", "url", "cache", "error", "errorDetails"] { line.add(name, text) }
        for name in ["status", "bytesSent", "bytesReceived", "duration"] { line.add(name, number: shown) }
        var pinning = JSONLine()
        pinning.add("verdict", text)
        pinning.add("matched", text)
        line.add("pinning", pinning)
        if kind & 4 == 0 { line.add("transactions", array: [transaction.object, transaction.object]) }
        Array(line.text.utf8).withUnsafeBytes { recent.append($0, count: 1) }
    }

    /// A request to the admin listener: whatever it is, it is decided.
    private func request(_ content: [UInt8]) {
        var parser = RequestParser(limits: HeadLimits(headBytes: 16 << 10))
        var head = RequestHead()
        let access = AdminAccess(isRemote: false, isUnixSocket: false, needsToken: false, hasToken: false)
        switch parser.parse(content.span, into: &head).1 {
        case .complete: _ = AdminRequest(head, isOwnName: true, access: access)
        case .failed(let fault): _ = AdminRequest(fault)
        case .needMore: break
        }
    }

    // MARK: Properties

    /// A document is one JSON value that the strict reader accepts.
    private func check(_ document: [UInt8], _ name: String) throws(FuzzFinding) {
        guard String(validating: document, as: UTF8.self) != nil else { throw FuzzFinding("\(name) is not UTF-8") }
        guard document.allSatisfy({ $0 >= 0x20 || $0 == UInt8(ascii: "\n") }) else {
            throw FuzzFinding("\(name) has a control character")
        }
        let read = JSONDocument(bytes: document, file: name)
        guard read.root != nil, read.issues.isEmpty else {
            throw FuzzFinding("\(name) is not JSON: \(read.issues.first?.message ?? "")")
        }
    }
}
