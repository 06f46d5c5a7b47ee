// SPDX-License-Identifier: Apache-2.0
extension Command {
    static let pinsDiff = Command(
        name: "pins diff",
        summary: "what differs between two pin files or folders of them",
        operands: .two("OLD", "NEW"),
        explanation: [
            """
            Prints the domains that were added (+), removed (-) and changed (~), each with its pins, settings and dates \
            that differ. Nothing is sent anywhere. Comments, order and the file in which a domain stands make no \
            difference; the contents of the files that are named do.
            """,
            """
            A change after which less is asked of a server is marked WEAKER: a domain taken away, pins only \
            reported, mode none, certificates or names no longer checked, fewer ports or no subdomains, a pin set that \
            ends unpinned. A pin taken away is none: more is asked then.
            """,
            "Exit code 0 without a difference, 1 with one, 66 for a missing file, 78 for a bad one.",
        ],
        examples: [
            Example(line: "pinproxy pins diff pins/ pins.next/", meaning: "Before new pins are deployed.")
        ]
    ) { arguments throws(CommandFailure) in
        let old = try PinFileSet(path: arguments.operands[0])
        let new = try PinFileSet(path: arguments.operands[1])
        let report = PinDifferenceReport(old, new, style: .standardOutput)
        try Output.standard(report.text)
        return report.isEmpty ? .success : .failed
    }
}
