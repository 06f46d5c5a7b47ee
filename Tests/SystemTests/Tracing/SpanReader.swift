// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport

/// Reads what a collector was sent with OpenTelemetry's published definitions, in Python (`make client-packages` installs them).
enum SpanReader {
    struct Span {
        let members: [String: Any]

        func text(_ key: String) -> String { members[key] as? String ?? "" }
        func number(_ key: String) -> Int { (members[key] as? NSNumber)?.intValue ?? 0 }
        var attributes: [String: Any] { members["attributes"] as? [String: Any] ?? [:] }
        func attribute(_ key: String) -> String? { attributes[key].map { "\($0)" } }
    }

    private static let environment: [String: String] = {
        var environment = Programs.environment
        let own = Repository.folder.appending(path: ".build/python").path
        environment["PYTHONPATH"] = ([own] + [environment["PYTHONPATH"]].compactMap { $0 }).joined(separator: ":")
        return environment
    }()

    /// Whether the machine has the definitions; where real peers are required, one that has not fails.
    static let isThere: Bool = {
        let call = ["-c", "import opentelemetry.proto.collector.trace.v1.trace_service_pb2"]
        let found = (try? Programs.run(RealPeers.python, call, environment: environment))?.exitCode == 0
        return found || RealPeers.areRequired
    }()

    static func spans(in messages: [HTTPMessage]) throws -> [Span] {
        let folder = try TemporaryFolder()
        return try messages.flatMap { message in
            let file = try folder.write(bytes: message.body, as: "message")
            let script = RealPeers.script("Servers/otlp_reader.py")
            let finished = try Programs.run(RealPeers.python, [script, file], environment: environment)
            guard finished.exitCode == 0,
                let spans = try JSONSerialization.jsonObject(with: Data(finished.output.utf8)) as? [[String: Any]]
            else { throw ChildProcess.Failure(description: "\(finished.output) \(finished.errors)") }
            return spans.map { Span(members: $0) }
        }
    }
}
