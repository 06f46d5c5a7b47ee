// SPDX-License-Identifier: Apache-2.0
/// The exit codes for scripts: those of sysexits(3) where one fits.
///
/// `exec` ends with the code of its child instead, as `env` does.
struct ExitCode: RawRepresentable, Equatable {
    var rawValue: Int32

    static let success = ExitCode(rawValue: 0)
    /// The work itself has failed.
    static let failed = ExitCode(rawValue: 1)
    /// The command line is wrong.
    static let usage = ExitCode(rawValue: 64)
    /// A file named on the command line is missing.
    static let inputMissing = ExitCode(rawValue: 66)
    /// A host's name is unknown.
    static let noHost = ExitCode(rawValue: 68)
    /// A server cannot be reached.
    static let unavailable = ExitCode(rawValue: 69)
    /// A listener's address is in use or not available.
    static let cannotBind = ExitCode(rawValue: 69)
    /// A basic system call has failed, or the program has a defect.
    static let `internal` = ExitCode(rawValue: 70)
    /// A file cannot be created.
    static let cannotCreate = ExitCode(rawValue: 73)
    /// The time limit is over; a later attempt may work.
    static let timedOut = ExitCode(rawValue: 75)
    /// The other side violates its protocol.
    static let protocolError = ExitCode(rawValue: 76)
    /// A security policy refused the server.
    static let refused = ExitCode(rawValue: 77)
    /// The configuration, or a file that it names, is wrong.
    static let badConfiguration = ExitCode(rawValue: 78)

    /// What a caller can make of each code, for the manual page.
    static let meanings: [(code: ExitCode, meaning: String)] = [
        (.success, "Done."),
        (.failed, "The work itself failed."),
        (.usage, "The command line is wrong."),
        (.inputMissing, "A file that is named on the command line is missing."),
        (.noHost, "A host is unknown."),
        (.unavailable, "An address is in use, or a server cannot be reached."),
        (.internal, "There are no threads or no memory, or the program has a defect."),
        (.cannotCreate, "A file cannot be made."),
        (.timedOut, "The time is over."),
        (.protocolError, "The other side does not keep to its protocol."),
        (.refused, "The policy refuses the server, or its chain is not valid."),
        (.badConfiguration, "The configuration, or a file that it names, has an error."),
    ]
}
