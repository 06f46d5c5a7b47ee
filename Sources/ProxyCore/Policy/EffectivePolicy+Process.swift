// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration

extension EffectivePolicy {
    /// The settings of the whole process: what is written where, and the limits of everything.
    static func process(_ configuration: Configuration) -> Section {
        let workers = configuration.workers == 0 ? "one for each core" : "\(configuration.workers)"
        var rows = [
            Row(label: "workers", text: workers), Row(label: "task log", text: tasks(configuration.log)),
            Row(label: "events", text: "standard error, from level \(configuration.log.level.rawValue) on"),
            Row(label: "masked in the log", text: masked(configuration.log.redact)),
            Row(label: "limits", text: text(configuration.limits)),
            Row(label: "pins", text: configuration.pins ?? "no folder"),
        ]
        if let file = configuration.reports.file { rows.append(Row(label: "reports", text: "to \(file), too")) }
        if let tracing = configuration.tracing {
            let place =
                tracing.collector.map { "spans go to \($0.url.origin)\(String(decoding: $0.target, as: UTF8.self))" }
                ?? "no spans are sent"
            let fields = tracing.headers.isEmpty ? "" : ", \(describe(tracing.headers))"
            rows.append(Row(label: "traces", text: "a share of \(tracing.sample) is sampled, \(place)\(fields)"))
        }
        if let field = configuration.requestID?.field { rows.append(Row(label: "request ids", text: "in \(field)")) }
        let lists = configuration.revocationLists
        if lists != RevocationListsConfiguration() {
            let place = lists.folder.map { "kept in \($0)" } ?? "kept in memory alone"
            rows.append(Row(label: "fetched lists", text: "every \(lists.every), \(place)"))
        }
        if let authority = configuration.interception {
            rows.append(Row(label: "local CA", text: "\(authority.certificate), key in \(authority.key)"))
        }
        return Section(title: "process", rows: rows)
    }

    private static func masked(_ parameters: [String]) -> String {
        if parameters.isEmpty { return "nothing" }
        let others = parameters.filter { !SecretParameters.usual.contains($0) }
        let hasAllUsual = Set(parameters).isSuperset(of: SecretParameters.usual)
        return "parameters "
            + (hasAllUsual ? ["with the usual names of secrets"] + others : parameters).joined(separator: ", ")
    }

    private static func tasks(_ log: LogConfiguration) -> String {
        if log.tasks == .off { return "off" }
        let place =
            switch log.tasks {
            case .off: "off"
            case .stdout: "standard output"
            case .stderr: "standard error"
            case .file(let path): path
            }
        let format = log.format.map { $0.rawValue } ?? "text on a terminal, else json"
        return "\(place), \(format)"
    }

    /// By the keys of the configuration.
    private static func text(_ limits: LimitsConfiguration) -> String {
        let body = limits.requestBodyBytes.map { ByteCount.describe($0) } ?? "none"
        return [
            "headBytes \(ByteCount.describe(limits.headBytes))", "headFields \(limits.headFields)",
            "targetBytes \(ByteCount.describe(limits.targetBytes))", "strictHost \(limits.strictHost)",
            "responseHeadBytes \(ByteCount.describe(limits.responseHeadBytes))",
            "responseHeadFields \(limits.responseHeadFields)", "connections \(limits.connections)",
            "connectionsPerHost \(limits.connectionsPerHost)", "requestBodyBytes \(body)",
            "redirectBodyBytes \(ByteCount.describe(limits.redirectBodyBytes))",
            "heldBytes \(ByteCount.describe(limits.heldBytes))",
        ].joined(separator: ", ")
    }

    /// By the keys of the configuration.
    static func text(_ timeouts: Timeouts) -> String {
        [
            "connect \(timeouts.connect)", "queue \(timeouts.queue)", "head \(timeouts.head)",
            "firstByte \(timeouts.firstByte)", "body \(timeouts.body)", "stall \(timeouts.stall)",
            "idle \(timeouts.idle)", "total \(timeouts.total.map(\.description) ?? "none")", "drain \(timeouts.drain)",
        ].joined(separator: ", ")
    }

    static func version(_ version: OriginHTTPVersion) -> String {
        version == .http2 ? "2 by ALPN, else 1.1" : "1.1"
    }
}
