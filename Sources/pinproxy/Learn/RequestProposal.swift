// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import ProxyCore
import StrictJSON

/// The text of proposed rules.
struct RequestProposal {
    var rules: [(rule: RequestRule, requests: Int)]

    /// A configuration with nothing else in it: what is in its braces belongs into another.
    var text: String { text(after: []) }

    /// Ends the command where the rules do not load: a defect of this program must not become the user's problem.
    func check() throws(CommandFailure) {
        let document = JSONDocument(text: text(after: ["\"version\": 1"]), file: "proposal")
        let issues = ConfigurationLoader.load(DocumentReader(document)).issues
        // The anchors of this machine are of no interest here.
        let own = issues.filter { $0.pointer.hasPrefix("/requests") || !document.issues.isEmpty }
        guard !own.isEmpty else { return }
        Output.error(own.map { "\($0)\n" }.joined())
        throw CommandFailure(.internal, "the proposal does not load")
    }

    /// - Parameter members: those that come before, whole lines.
    func text(after members: [String]) -> String {
        let texts = rules.map { rule, requests in
            var members = [
                "\"id\": \(JSONString.quoted(rule.id))", "\"host\": \(Self.values(rule.hosts.map(\.description)))",
            ]
            if !rule.ports.isEmpty { members.append("\"port\": \(Self.numbers(rule.ports))") }
            if let methods = rule.methods { members.append("\"method\": \(Self.values(methods.words))") }
            if !rule.paths.isEmpty { members.append("\"path\": \(Self.values(rule.paths.map(\.text)))") }
            members.append("\"then\": \"allow\"")
            return "      { \(members.joined(separator: ", ")) }"
        }
        let requests = """
              "requests": {
                "policy": "deny",
                "rules": [
            \(texts.joined(separator: ",\n"))
                ]
              }
            """
        let all = members.map { "  \($0)" } + (rules.isEmpty ? [] : [requests])
        return "{\n\(all.joined(separator: ",\n"))\n}\n"
    }

    var json: JSONLine {
        var line = JSONLine()
        line.add("policy", "deny")
        line.add(
            "rules",
            array: rules.map { rule, requests in
                var line = JSONLine()
                line.add("id", rule.id)
                line.add("host", strings: rule.hosts.map(\.description))
                if !rule.ports.isEmpty { line.add("port", array: rule.ports.map(String.init)) }
                if let methods = rule.methods { line.add("method", strings: methods.words) }
                if !rule.paths.isEmpty { line.add("path", strings: rule.paths.map(\.text)) }
                line.add("then", rule.action.rawValue)
                line.add("requests", requests)
                return line.object
            }
        )
        return line
    }

    private static func values(_ values: [String]) -> String {
        let texts = values.map(JSONString.quoted)
        return texts.count == 1 ? texts[0] : "[\(texts.joined(separator: ", "))]"
    }

    private static func numbers(_ numbers: [UInt16]) -> String {
        numbers.count == 1 ? "\(numbers[0])" : "[\(numbers.map(String.init).joined(separator: ", "))]"
    }
}
