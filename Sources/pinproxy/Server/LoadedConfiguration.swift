// SPDX-License-Identifier: Apache-2.0
import ProxyConfiguration
import ProxyCore
import ServerTrust
import StrictJSON

/// The complete configuration of a command, or the failure that ends the command.
enum LoadedConfiguration {
    /// Prints every issue on a line of its own, if there are any.
    ///
    /// - Returns: the policy, and the warnings for every start.
    static func load(_ path: String) throws(CommandFailure) -> (PolicySnapshot, warnings: [DocumentIssue]) {
        let (parts, outcome) = try loadParts(path)
        return (PolicySnapshot(parts, generation: 1), outcome.warnings)
    }

    /// Loads like `load`, for a server: with the record of the files, with which reloads begin.
    static func loadParts(
        _ path: String,
        intercepting: Bool = false
    ) throws(CommandFailure) -> (PolicyParts, ConfigurationLoader.Outcome) {
        let outcome = try outcome(path, intercepting: intercepting)
        guard let parts = outcome.parts else { throw refusal(of: outcome) }
        return (parts, outcome)
    }

    /// Prints the issues of a configuration that was not loaded.
    static func refusal(of outcome: ConfigurationLoader.Outcome) -> CommandFailure {
        Output.error(outcome.issues.map { "\($0)\n" }.joined())
        show(outcome.warnings)
        return failure(outcome.issues)
    }

    /// The policy, or every issue that prevents one. Only a configuration that is not there ends the command.
    static func outcome(
        _ path: String,
        intercepting: Bool = false
    ) throws(CommandFailure) -> ConfigurationLoader.Outcome {
        let outcome = ConfigurationLoader.load(path: path, intercepting: intercepting)
        guard outcome.configurationIsMissing else { return outcome }
        throw CommandFailure(
            .inputMissing,
            "\(Arguments.shown(path: path)) does not exist",
            remedy: "name a configuration file; config.example.json is one to start from"
        )
    }

    static func failure(_ errors: [DocumentIssue]) -> CommandFailure {
        let count = errors.total
        return CommandFailure(
            .badConfiguration,
            count == 1 ? "1 error in the configuration" : "\(count) errors in the configuration"
        )
    }

    /// Prints the warnings for a person.
    static func show(_ warnings: [DocumentIssue]) {
        for warning in warnings { Output.error("pinproxy: warning: \(warning)\n") }
    }

    /// Writes the warnings of a server: one JSON line each. Expiring pin sets are left out, because the server logs
    /// them daily.
    static func printWarnings(_ warnings: [DocumentIssue]) {
        for warning in warnings where warning.code != DocumentIssue.pinSetExpiry {
            EventLine(event: "warning").with("message", warning.description).write()
        }
    }
}
