import ProxyCore
import ServerTrust
import StrictJSON

/// The configuration that a command names, read whole, or the failure that the command ends with.
enum LoadedConfiguration {
    /// Prints every issue, one a line, when there is any.
    ///
    /// - Returns: the policy, and what is to be told at every start.
    static func load(_ path: String) throws(CommandFailure) -> (PolicySnapshot, warnings: [DocumentIssue]) {
        let (snapshot, outcome) = try loadRecorded(path)
        return (snapshot, outcome.warnings)
    }

    /// The same with all that the load found, to begin reloads from.
    static func loadRecorded(
        _ path: String
    ) throws(CommandFailure) -> (PolicySnapshot, ConfigurationLoader.Outcome) {
        let outcome = ConfigurationLoader.load(path: path)
        if outcome.configurationIsMissing {
            throw CommandFailure(
                .inputMissing,
                "\(Arguments.shown(path)) does not exist",
                remedy: "name a configuration file; config.example.json is one to start from"
            )
        }
        guard let snapshot = outcome.snapshot else {
            Output.error(outcome.issues.map { "\($0)\n" }.joined())
            show(outcome.warnings)
            let count = outcome.issues.count
            throw CommandFailure(.badConfiguration, count == 1 ? "1 error" : "\(count) errors in the configuration")
        }
        return (snapshot, outcome)
    }

    /// The warnings for a person.
    static func show(_ warnings: [DocumentIssue]) {
        for warning in warnings { Output.error("pinproxy: warning: \(warning)\n") }
    }

    /// The warnings as a server tells them: one JSON line each. Of pin sets that end soon it tells by itself, day by day.
    static func printWarnings(_ warnings: [DocumentIssue]) {
        for warning in warnings where warning.code != DocumentIssue.pinSetExpiry {
            EventLine(event: "warning").with("message", warning.description).write()
        }
    }
}
