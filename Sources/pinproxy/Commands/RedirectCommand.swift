// SPDX-License-Identifier: Apache-2.0
import Glibc

extension Command {
    static let redirect = Command(
        name: "redirect",
        summary: "prints or sets the rules that a transparent listener needs",
        options: [.exemptUser, .exemptGroup, .redirectedPorts, .listenerPort, .ipv6, .forwarded, .apply, .remove],
        explanation: [
            """
            Prints rules for nft -f that redirect what programs of this machine, or of this pod, connect to at ports 80 and 443 to a \
            listener of mode "transparent" at 127.0.0.1. The rules are in a table of their own, inet pinproxy, which they replace as a whole.
            """,
            """
            pinproxy's own connections are left alone, or they would come back to it: --user names the user that it runs as, --cgroup \
            its group of cgroup v2, where programs of the same user are to be redirected. Connections to 127.0.0.0/8 and ::1 are left alone, too.
            """,
            """
            Nothing passes by: UDP to these ports (HTTP/3) is rejected, and IPv6, so that clients use IPv4. With --ipv6 it is redirected \
            as well, to a listener at ::1. With --forwarded so is what containers and machines behind this one connect to; the listener \
            then has to be at the address of the interface that they come by.
            """,
            """
            With --apply the rules are given to nft, which needs CAP_NET_ADMIN in the network namespace: as root, or in an init container \
            of a pod. To do so again changes nothing. --remove takes the table away.
            """,
        ],
        examples: [
            Example(line: "pinproxy redirect --user pinproxy", meaning: "Prints the rules, to be read first."),
            Example(line: "pinproxy redirect --user 65532 --apply", meaning: "Sets them, in an init container."),
            Example(line: "pinproxy redirect --remove --apply", meaning: "Takes them away."),
        ]
    ) { arguments throws(CommandFailure) in
        let text = arguments.has("remove") ? RedirectTable.removal : try table(arguments).text
        guard arguments.has("apply") else {
            try Output.standard(text)
            return .success
        }
        try NetfilterProgram.apply(text)
        return .success
    }

    private static func table(_ arguments: Arguments) throws(CommandFailure) -> RedirectTable {
        func wrong(_ message: String, _ remedy: String) -> CommandFailure {
            CommandFailure(.usage, "redirect: \(message)", remedy: remedy, usageOf: .redirect)
        }
        let exemption: RedirectTable.Exemption
        switch (arguments.values["user"], arguments.values["cgroup"]) {
        case (let name?, nil): exemption = .user(try user(name))
        case (nil, let path?):
            guard let group = RedirectTable.group(path) else {
                throw wrong(
                    "\(Arguments.shown(path)) is no group",
                    "write its path below /sys/fs/cgroup, as in system.slice/pinproxy.service"
                )
            }
            exemption = group
        case (_?, _?): throw wrong("--user and --cgroup exclude each other", "")
        case (nil, nil):
            throw wrong(
                "whose connections are left alone is missing: --user or --cgroup",
                "name the user that pinproxy runs as"
            )
        }
        var table = RedirectTable(exemption: exemption)
        if let text = arguments.values["ports"] {
            guard let ports = RedirectTable.ports(text) else {
                throw wrong("\(Arguments.shown(text)) is no list of ports", "write it as in --ports 80,443")
            }
            table.ports = ports
        }
        if let text = arguments.values["to"] {
            guard let port = RedirectTable.port(text) else {
                throw wrong("\(Arguments.shown(text)) is no port", "write the port of the transparent listener")
            }
            table.listener = port
        }
        table.redirectsIPv6 = arguments.has("ipv6")
        table.redirectsForwarded = arguments.has("forwarded")
        return table
    }

    /// The number of a user, by number or name. The rules have numbers: another container may not know the name.
    private static func user(_ name: String) throws(CommandFailure) -> UInt32 {
        if let number = UInt32(name), number != .max, String(number) == name { return number }
        if let found = getpwnam(name) { return found.pointee.pw_uid }
        throw CommandFailure(
            .failed,
            "this machine knows no user \(Arguments.shown(name))",
            remedy: "write the number of the user"
        )
    }
}

extension Command.Option {
    fileprivate static let exemptUser = Command.Option(
        name: "user",
        value: "USER",
        summary: "the user that pinproxy runs as, by name or number"
    )
    fileprivate static let exemptGroup = Command.Option(
        name: "cgroup",
        value: "PATH",
        summary: "the cgroup (v2) that pinproxy runs in, in place of a user"
    )
    fileprivate static let redirectedPorts = Command.Option(
        name: "ports",
        value: "PORTS",
        summary: "what is redirected; 80,443 without this"
    )
    fileprivate static let listenerPort = Command.Option(
        name: "to",
        value: "PORT",
        summary: "the port of the transparent listener; 15001 without this"
    )
    fileprivate static let ipv6 = Command.Option(
        name: "ipv6",
        summary: "redirect IPv6 too, in place of rejecting it"
    )
    fileprivate static let forwarded = Command.Option(
        name: "forwarded",
        summary: "redirect connections that come through this machine, too"
    )
    fileprivate static let apply = Command.Option(
        name: "apply",
        summary: "give the rules to nft in place of printing them"
    )
    fileprivate static let remove = Command.Option(name: "remove", summary: "take the table away")
}
