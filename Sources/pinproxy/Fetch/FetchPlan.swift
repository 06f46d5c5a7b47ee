// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionCore
import IOCore
import ServerTrust
import SessionCore

/// The work that the command line describes for `fetch`.
struct FetchPlan {
    var request: HTTPSessionRequest
    /// The file or device for the body; nil: the standard output.
    var output: OutputFile?
    /// The path of the file that the body becomes; nil where it is written as it comes.
    var file: String? { output?.target }
    var resumes: Bool
    var showsHead: Bool
    var showsMetrics: Bool
    var printsJSON: Bool
    var followsRedirects: Bool
    var wantsHTTP2: Bool
    var config: String?
    var anchorFile: String?
    /// The address to connect to instead of the URL's host.
    var connect: (host: Host, place: ServerAddress)?
    var timeout: Duration?

    init(_ arguments: Arguments) throws(CommandFailure) {
        let url = arguments.operands[0]
        guard let origin = AbsoluteURL(url)?.origin else {
            throw Self.wrong(
                "\(Arguments.shown(url)) is no http or https URL in ASCII",
                "as in https://api.example.com/v1/items?page=2"
            )
        }
        config = arguments.values["config"]
        output = try Self.output(arguments.values["output"])
        showsHead = arguments.has("include")
        showsMetrics = arguments.has("metrics")
        printsJSON = arguments.has("json")
        followsRedirects = !arguments.has("no-redirect")
        wantsHTTP2 = arguments.has("http2")
        anchorFile = arguments.values["anchors"]
        timeout = try Command.timeout(arguments, of: .fetch)
        request = try Self.request(url, arguments)
        resumes = try Self.resumes(arguments)
        guard !resumes || file != nil else { throw Self.wrong("-C - goes on with a file, and -o names none") }
        if arguments.values["connect"] != nil {
            let server = ServerAddress(origin.host, port: origin.port)
            connect = try Command.connectAddress(arguments, server).map { (origin.host, $0) }
        }
        guard config == nil || (anchorFile == nil && connect == nil && !wantsHTTP2) else {
            throw Self.wrong(
                "--anchors, --connect and --http2 are for a request without --config",
                "the configuration says trustAnchors, resolve and httpVersion for its hosts"
            )
        }
    }

    private static func wrong(_ message: String, _ remedy: String = "") -> CommandFailure {
        CommandFailure(.usage, "fetch: \(message)", remedy: remedy, usageOf: .fetch)
    }

    private static func output(_ word: String?) throws(CommandFailure) -> OutputFile? {
        guard let word, word != "-" else { return nil }
        do throws(IOFailure) {
            return try OutputFile(word)
        } catch {
            throw CommandFailure(
                .cannotCreate,
                "fetch: \(Arguments.shown(word)) cannot be written: \(error.reason)",
                remedy: "name a file for the body with -o, or leave it out for the standard output"
            )
        }
    }

    private static func resumes(_ arguments: Arguments) throws(CommandFailure) -> Bool {
        guard let place = arguments.values["continue-at"] else { return false }
        guard place == "-" else {
            throw wrong(
                "--continue-at takes -, not \(Arguments.shown(place))",
                "where to go on is known from what was kept"
            )
        }
        guard arguments.values["output"] != nil else { throw wrong("-C - needs -o FILE: that is what it goes on with") }
        for name in ["request", "data", "form", "upload-file"] where arguments.values[name] != nil {
            throw wrong("-C - is for a plain download: it goes with no --\(name)")
        }
        return true
    }

    // MARK: The request

    private static func request(_ url: String, _ arguments: Arguments) throws(CommandFailure) -> HTTPSessionRequest {
        let ways = ["data", "form", "upload-file"].filter { arguments.values[$0] != nil }
        guard ways.count <= 1 else { throw wrong("--\(ways[0]) and --\(ways[1]) are two bodies: give one") }
        var request = HTTPSessionRequest(url: url)
        switch ways.first {
        case "data": try attach(data: arguments.lists["data"] ?? [], to: &request)
        case "form": try attach(form: arguments.lists["form"] ?? [], to: &request)
        case "upload-file":
            request.method = .put
            let path = arguments["upload-file"]
            request.body = .source(path == "-" ? StandardInputReader.source() : try file(path))
        default: break
        }
        if let word = arguments.values["request"] {
            guard let method = HTTPMethod(word) else { throw wrong("\(Arguments.shown(word)) is no method") }
            request.method = method
        }
        for line in arguments.lists["header"] ?? [] { try add(line, to: &request.headers) }
        return request
    }

    private static func add(_ line: String, to headers: inout HTTPHeaders) throws(CommandFailure) {
        guard let colon = line.firstIndex(of: ":"), colon != line.startIndex else {
            throw wrong("\(Arguments.shown(line)) is no header field", "as in -H \"Accept: application/json\"")
        }
        let name = String(line[..<colon])
        let value = line[line.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
        // A content type that belongs to the body is replaced.
        if name.lowercased() == "content-type" { headers.remove(name: name) }
        let field: HTTPHeaders = [name: String(value)]
        do throws(SessionError) {
            try field.validate()
        } catch {
            throw wrong("\(Arguments.shown(line)) cannot be sent: \(error.details)")
        }
        headers.append(name: name, value: String(value))
    }

    private static func attach(data: [String], to request: inout HTTPSessionRequest) throws(CommandFailure) {
        request.method = .post
        let files = data.filter { $0.hasPrefix("@") }
        if let file = files.first {
            guard data.count == 1 else { throw wrong("a file of --data goes alone", "-F sends several") }
            let path = String(file.dropFirst())
            request.body = .source(path == "-" ? StandardInputReader.source() : try Self.file(path))
        } else {
            request.body = .bytes(Array(data.joined(separator: "&").utf8))
        }
        try add("Content-Type: application/x-www-form-urlencoded", to: &request.headers)
    }

    private static func attach(form: [String], to request: inout HTTPSessionRequest) throws(CommandFailure) {
        var parts = MultipartFormData()
        for word in form {
            guard let sign = word.firstIndex(of: "="), sign != word.startIndex else {
                throw wrong("\(Arguments.shown(word)) is no part of a form", "as in -F name=value or -F name=@file")
            }
            let name = String(word[..<sign])
            let value = String(word[word.index(after: sign)...])
            guard value.hasPrefix("@") else {
                try checked { () throws(SessionError) in try parts.append(value, name: name) }
                continue
            }
            let (path, type) = file(value.dropFirst())
            _ = try file(path)
            try checked { () throws(SessionError) in try parts.appendFile(path, name: name, mimeType: type) }
        }
        request = try checked { () throws(SessionError) in try parts.request(.post, request.url) }
    }

    private static func checked<Value>(_ work: () throws(SessionError) -> Value) throws(CommandFailure) -> Value {
        do throws(SessionError) {
            return try work()
        } catch {
            throw wrong(String(error.details.dropLast()))
        }
    }

    /// Splits `FILE;type=TYPE` into path and type.
    private static func file(_ word: Substring) -> (path: String, type: String?) {
        let mark = ";type="
        guard let semicolon = word.lastIndex(of: ";"), word[semicolon...].hasPrefix(mark) else {
            return (String(word), nil)
        }
        return (String(word[..<semicolon]), String(word[semicolon...].dropFirst(mark.count)))
    }

    private static func file(_ path: String) throws(CommandFailure) -> BodySource {
        do throws(SessionError) {
            return try .file(path)
        } catch {
            throw CommandFailure(.inputMissing, "fetch: \(error.details.dropLast())")
        }
    }
}
