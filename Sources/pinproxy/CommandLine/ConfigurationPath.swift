// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Which configuration a command reads.
enum ConfigurationPath {
    /// The configuration of the installed service: Debian's package, the image for containers and `make install` have it there.
    static let installed = "/etc/pinproxy/config.json"

    /// The path of `--config`, or of the operand in its place; without both that of the installed service, if it exists.
    ///
    /// - Parameter operand: the command's own operand, for a command that takes a configuration as one.
    static func find(
        _ arguments: Arguments,
        of command: Command,
        operand: String? = nil
    ) throws(CommandFailure) -> String {
        let option = arguments.values["config"]
        if let option, let operand {
            throw CommandFailure(
                .usage,
                "\(command.name): \(Arguments.shown(operand)) is one argument too many beside --config \(Arguments.shown(option))",
                remedy: "name one configuration",
                usageOf: command
            )
        }
        if let path = option ?? operand { return path }
        guard isInstalled else {
            throw CommandFailure(
                .usage,
                "\(command.name): --config FILE is missing",
                remedy: "without it \(installed) is read, and that does not exist",
                usageOf: command
            )
        }
        return installed
    }

    /// Whether the file of the installed service exists, readable or not.
    static var isInstalled: Bool { access(installed, F_OK) == 0 || errno == EACCES }
}

extension Command.Option {
    /// The configuration of a command that needs one.
    static let config = configuration(
        "the configuration (default: \(ConfigurationPath.installed)); paths in it are relative to its folder"
    )

    static func configuration(_ summary: String) -> Command.Option {
        Command.Option(name: "config", value: "FILE", summary: summary, letter: "c")
    }
}
