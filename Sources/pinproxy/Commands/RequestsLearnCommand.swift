// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyCore
import StrictJSON

extension Command {
    static let requestsLearn = Command(
        name: "requests learn",
        summary: "propose rules for requests, from the task log",
        options: [
            Option(
                name: "json",
                summary: "print the proposal in one line, with counts, instead of a part of a configuration"
            )
        ],
        operands: .oneOrMore("LOG"),
        explanation: [
            """
            Reads task logs (- is the standard input) and prints "requests" for the configuration: the smallest list of rules \
            that lets requests like these through, and denies all others. Where ids or many names were seen in a path, the \
            rule has a star. What was left out is counted on the standard error: requests that no server has responded to or \
            that one has refused (4xx, 5xx), those that can be read in two ways, and those that no rule can name.
            """,
            """
            Users and credentials are never proposed. Nothing is in force by this: read the rules, and try them with \
            "policy": "report" or pinproxy check request --log.
            """,
            "Exit code 0 with a proposal, 1 when there is nothing to propose, 66 when a log is missing.",
        ],
        examples: [
            Example(line: "pinproxy requests learn tasks.log > learned.json", meaning: "What was asked so far."),
            Example(line: "journalctl -u pinproxy -o cat | pinproxy requests learn -", meaning: "From the journal."),
        ]
    ) { arguments throws(CommandFailure) in
        var seen = SeenRequests()
        var lines = LogLines()
        for log in arguments.operands { try lines.read(log) { seen.add($0) } }
        Output.error(seen.summary(lines))
        let proposal = RequestProposal(rules: seen.learner.proposal)
        guard !proposal.rules.isEmpty else {
            throw CommandFailure(
                .failed,
                "there is nothing to propose",
                remedy: "the log shows no request that a server has responded to and that can be read in one way"
            )
        }
        try proposal.check()
        try Output.standard(arguments.has("json") ? proposal.json.text : proposal.text)
        return .success
    }
}
