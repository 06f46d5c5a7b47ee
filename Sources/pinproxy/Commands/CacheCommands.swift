// SPDX-License-Identifier: Apache-2.0
extension Command {
    static let cacheStats: Command = Command(
        name: "cache stats",
        summary: "what the cache of a running proxy has done and holds",
        options: [.adminConfig, .admin, .tokenFile, .patience, .cacheJSON],
        explanation: [
            """
            Asks the admin listener of a running pinproxy. Where it listens is read from the "admin" of a \
            configuration, or given with --admin; without either from that of \(ConfigurationPath.installed), if there is one, \
            else it is 127.0.0.1:8081. 69 when no pinproxy answers there, \
            1 when the proxy has no cache.
            """,
            "--json prints one JSON object: the same as the admin listener's /cache.",
        ],
        examples: [
            Example(line: "pinproxy cache stats --config config.json", meaning: "Requests by outcome, and both stores.")
        ]
    ) { arguments throws(CommandFailure) in
        let body = try requestCache(arguments, "/cache", of: .cacheStats)
        try Output.standard(arguments.has("json") ? body : try CacheReport.figures(body))
        return .success
    }

    static let cacheList: Command = Command(
        name: "cache list",
        summary: "what is stored in the cache of a running proxy",
        options: [
            Option(name: "host", value: "HOST", summary: "of this host alone"),
            Option(name: "limit", value: "N", summary: "so many at most, the latest: 100 unless given, up to 10000"),
            .adminConfig, .admin, .tokenFile, .patience, .cacheJSON,
        ],
        explanation: [
            """
            Prints a line for each stored response, the latest first: status, size of the body, when it was received or last \
            validated, until when it is fresh, and the URL. Values of query parameters that log.redact names are \
            masked.
            """,
            """
            --json prints one object a line, with "url", "status", "bytes", "stored", "freshUntil" and, where there \
            are any, "tags", "varies" (fields of requests that it is for) and "user" (whose it is in a cache that is not shared).
            """,
        ],
        examples: [
            Example(line: "pinproxy cache list --host api.example.com --limit 20", meaning: "The latest 20 of a host.")
        ]
    ) { arguments throws(CommandFailure) in
        var query: [String] = []
        for name in ["host", "limit"] {
            if let value = arguments.values[name] { query.append("\(name)=\(percentEncoded(value))") }
        }
        let target = "/cache/entries" + (query.isEmpty ? "" : "?" + query.joined(separator: "&"))
        let entries = try CacheReport.entries(try requestCache(arguments, target, of: .cacheList))
        if entries.isEmpty { Output.error("nothing is stored\n") }
        try Output.standard(
            arguments.has("json") ? entries.map(\.jsonLine).joined() : CacheReport.text(of: entries)
        )
        return .success
    }

    static let cachePurge: Command = Command(
        name: "cache purge",
        summary: "remove responses from the cache of a running proxy",
        options: [
            Option(name: "prefix", value: "URL", summary: "all URLs that begin like this one"),
            Option(name: "host", value: "HOST", summary: "all of this host"),
            Option(name: "tag", value: "TAG", summary: "all that bear this tag of Surrogate-Key or Cache-Tag"),
            Option(name: "all", summary: "everything"),
            Option(name: "soft", summary: "make stale instead of removing"),
            .adminConfig, .admin, .tokenFile, .patience, .cacheJSON,
        ],
        operands: .any("URL"),
        explanation: [
            """
            Removes what is stored for a URL (all variants of it; for http:// also what was upgraded to https://), for \
            URLs with a prefix (end it with "/" if it is a folder), for a host, under a tag, or everything. Responses that \
            are on their way at that moment are not stored.
            """,
            """
            With --soft they stay and are stale from now on: the next request for one validates it, and until then it is \
            used as far as a stale response may be, such as during stale-while-revalidate.
            """,
            "Prints the number of removed responses; 0 is no error.",
        ],
        examples: [
            Example(line: "pinproxy cache purge https://api.example.com/v1/items", meaning: "One URL."),
            Example(
                line: "pinproxy cache purge --soft --prefix https://api.example.com/v1/",
                meaning: "All below /v1/ is validated before its next use."
            ),
            Example(line: "pinproxy cache purge --tag product-17", meaning: "Whatever the origin tagged so."),
        ]
    ) { arguments throws(CommandFailure) in
        let body = try requestCache(arguments, "/cache?\(try purgeQuery(arguments))", method: "DELETE", of: .cachePurge)
        try Output.standard(arguments.has("json") ? body : try CacheReport.removed(body))
        return .success
    }

    private static func purgeQuery(_ arguments: Arguments) throws(CommandFailure) -> String {
        var wanted = arguments.operands.map { "url=\(percentEncoded($0))" }
        for name in ["prefix", "host", "tag"] {
            if let value = arguments.values[name] { wanted.append("\(name)=\(percentEncoded(value))") }
        }
        if arguments.has("all") { wanted.append("all") }
        guard wanted.count == 1 else {
            throw CommandFailure(
                .usage,
                wanted.isEmpty ? "cache purge: nothing is named" : "cache purge: more than one thing is named",
                remedy: "name one: a URL, --prefix, --host, --tag or --all",
                usageOf: .cachePurge
            )
        }
        return wanted[0] + (arguments.has("soft") ? "&soft" : "")
    }

    /// - Returns: the document in the response.
    private static func requestCache(
        _ arguments: Arguments,
        _ target: String,
        method: String = "GET",
        of command: Command
    ) throws(CommandFailure) -> String {
        let listener = try AdminListener(arguments, of: command)
        let patience = try timeout(arguments, of: command) ?? .seconds(5)
        let response = try listener.request(target, method: method, patience: patience)
        if response.status == 200 { return response.body }
        let reason = CacheReport.problem(response.body) ?? TextLayout.printable(response.statusLine)
        throw CommandFailure(response.status == 400 ? .usage : .failed, "\(listener.endpoint) answers: \(reason)")
    }

    /// Encodes a value for a query.
    private static func percentEncoded(_ text: String) -> String {
        text.utf8.map { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                String(UnicodeScalar(byte))
            default:
                "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
        }.joined()
    }
}

extension Command.Option {
    fileprivate static let cacheJSON = Command.Option(name: "json", summary: "print JSON")
}
