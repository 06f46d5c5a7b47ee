// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// The built `pinproxy run` with its own configuration; it is killed with this object.
package final class ProxyUnderTest {
    package struct Listening: Sendable {
        package let mode: String
        /// Nil for a Unix socket.
        package let port: UInt16?
        package let unixPath: String?
    }

    package let folder: TemporaryFolder
    package let listening: [Listening]
    private let process: ChildProcess

    /// Starts a proxy and waits until all its listeners are ready.
    ///
    /// - Parameters:
    ///   - environment: further variables.
    ///   - openFiles: the limit of its open files, instead of the tests' own.
    package init(_ settings: ProxySettings, environment: [String: String] = [:], openFiles: Int? = nil) throws {
        folder = try TemporaryFolder()
        let path = try settings.write(to: folder)
        let count = settings.listeners.count + (settings.members["admin"] == nil ? 0 : 1)
        let program = try Programs.built("pinproxy")
        let shell = #"ulimit -n "$0" && exec "$@""#
        let process = try ChildProcess(
            openFiles == nil ? program : "/bin/sh",
            (openFiles.map { ["-c", shell, "\($0)", program] } ?? []) + ["run", "--config", path],
            environment: Programs.environment.merging(environment) { $1 }
        )
        self.process = process
        listening = try process.waitForErrors("\(count) listening lines") { text in
            let lines = Self.events("listening", text)
            return lines.count < count ? nil : lines.map(Self.listener)
        }
    }

    private static func listener(_ line: LogLine) -> Listening {
        let address = line["address"] as? String
        return Listening(
            mode: line["listener"] as? String ?? "",
            port: address?.split(separator: ":").last.flatMap { UInt16($0) },
            unixPath: line["unixSocket"] as? String
        )
    }

    package var identifier: Int32 { process.identifier }
    /// The port of the first listener.
    package var port: UInt16 { port(of: 0) }

    package func port(of listener: Int) -> UInt16 { listening[listener].port ?? 0 }

    // MARK: Asking

    package func connect(to listener: Int = 0) throws -> TestClient {
        if let path = listening[listener].unixPath { return try TestClient(unixPath: path) }
        return try TestClient(port: port(of: listener))
    }

    /// Sends bytes on a new connection and reads one response.
    package func exchange(_ request: String, method: String = "GET", on listener: Int = 0) throws -> HTTPMessage {
        let client = try connect(to: listener)
        try client.send(request)
        return try client.readResponse(to: method)
    }

    /// Sends a GET of a URL in absolute form.
    package func get(_ url: String, fields: [String] = []) throws -> HTTPMessage {
        try exchange(Self.request("GET", url, fields: fields))
    }

    /// Makes a request in absolute form, with the Host from the URL.
    package static func request(
        _ method: String,
        _ url: String,
        fields: [String] = [],
        body: String? = nil
    ) -> String {
        let afterScheme = url.range(of: "://").map { url[$0.upperBound...] } ?? url[...]
        let whole = afterScheme.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        let authority = whole.split(separator: "@").last ?? whole
        var lines = ["\(method) \(url) HTTP/1.1", "Host: \(authority)"] + fields
        if let body { lines.append("Content-Length: \(body.utf8.count)") }
        return lines.joined(separator: "\r\n") + "\r\n\r\n" + (body ?? "")
    }

    // MARK: Reloading

    /// The event lines of that name so far.
    package func events(_ name: String) -> [LogLine] { Self.events(name, process.errors) }

    private static func events(_ name: String, _ errors: String) -> [LogLine] {
        lines(of: errors, with: name).filter { $0.string("event") == name }
    }

    /// The lines of a log in which a member has that value.
    private static func lines(of log: String, with value: String) -> [LogLine] {
        LogLine.texts(in: log, with: "\"\(value)\"").compactMap { LogLine($0) }
    }

    /// Waits until the events of that name meet a condition.
    @discardableResult
    package func waitForEvent(
        _ name: String,
        where isWanted: @escaping (LogLine) -> Bool = { _ in true }
    ) throws -> LogLine {
        try process.waitForErrors("the event \(name)") { Self.events(name, $0).last(where: isWanted) }
    }

    /// Replaces its files without a reload.
    package func rewrite(_ settings: ProxySettings) throws { _ = try settings.write(to: folder) }

    /// Sends SIGHUP and waits until the reload has succeeded, or has reported its first error.
    ///
    /// - Returns: the event of the reload; of several errors any one.
    @discardableResult
    package func hangUp() throws -> LogLine {
        let before = Self.hangUps(process.errors).count
        process.signal(SIGHUP)
        return try process.waitForErrors("the reload") { errors in
            let all = Self.hangUps(errors)
            return all.count > before ? all.last : nil
        }
    }

    private static func hangUps(_ errors: String) -> [LogLine] {
        lines(of: errors, with: "SIGHUP").filter { line in
            ["reloaded", "reloadFailed"].contains(line.string("event")) && line.string("trigger") == "SIGHUP"
        }
    }

    /// Replaces its files, and reloads them with SIGHUP.
    @discardableResult
    package func reload(_ settings: ProxySettings) throws -> LogLine {
        try rewrite(settings)
        return try hangUp()
    }

    /// The number of its open descriptors.
    package func descriptorCount() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/\(identifier)/fd").count
    }

    // MARK: Its log and its memory

    package var output: String { process.output }
    package var errors: String { process.errors }

    /// The lines of the task log so far.
    package var taskLines: [LogLine] { Self.taskLines(process.output) }

    private static func taskLines(_ output: String) -> [LogLine] { events("task", output) }

    /// Waits for a number of lines in the task log.
    ///
    /// - Returns: the lines in the order in which their requests began. Each worker writes its own, so that those of two
    ///   connections come in either order.
    package func waitForTaskLines(_ count: Int) throws -> [LogLine] {
        let lines = try process.waitForOutput("\(count) task log lines") { output -> [LogLine]? in
            guard LogLine.texts(in: output, with: "\"task\"").count >= count else { return nil }
            let lines = Self.taskLines(output)
            return lines.count >= count ? lines : nil
        }
        return lines.enumerated()
            .sorted { ($0.element.string("time") ?? "", $0.offset) < ($1.element.string("time") ?? "", $1.offset) }
            .map(\.element)
    }

    /// Private resident memory in bytes: `RssAnon`.
    package func residentMemory() throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(identifier)/status", encoding: .utf8)
        guard let line = status.split(separator: "\n").first(where: { $0.hasPrefix("RssAnon:") }),
            let kilobytes = line.split(separator: " ").compactMap({ Int($0) }).first
        else { throw ChildProcess.Failure(description: "no RssAnon in /proc: \(status)") }
        return kilobytes << 10
    }

    // MARK: The end

    package func signal(_ number: Int32) { process.signal(number) }

    @discardableResult
    package func waitForExit(seconds: Double = Patience.seconds) throws -> Programs.Finished {
        try process.waitForExit(seconds: seconds)
    }

    /// Sends SIGTERM, and waits for its end.
    @discardableResult
    package func terminate() throws -> Programs.Finished {
        signal(SIGTERM)
        return try waitForExit()
    }
}
