/// How the program ends, for scripts: sysexits(3) where there is a word for it.
///
/// `exec` ends with the code of its child instead, as `env` does.
struct ExitCode: RawRepresentable, Equatable {
    var rawValue: Int32

    static let success = ExitCode(rawValue: 0)
    /// The work itself failed.
    static let failed = ExitCode(rawValue: 1)
    /// The command line is wrong.
    static let usage = ExitCode(rawValue: 64)
    /// A file named on the command line is missing.
    static let inputMissing = ExitCode(rawValue: 66)
    /// A host's name is not known.
    static let noHost = ExitCode(rawValue: 68)
    /// A server cannot be reached.
    static let unavailable = ExitCode(rawValue: 69)
    /// A listener's address cannot be had.
    static let cannotBind = ExitCode(rawValue: 69)
    /// The system refused what a program may expect of it, or the program is wrong.
    static let `internal` = ExitCode(rawValue: 70)
    /// A file cannot be made.
    static let cannotCreate = ExitCode(rawValue: 73)
    /// It took too long: it may work later.
    static let timedOut = ExitCode(rawValue: 75)
    /// The other side does not keep to its protocol.
    static let protocolError = ExitCode(rawValue: 76)
    /// A security policy refused the server.
    static let refused = ExitCode(rawValue: 77)
    /// The configuration, or a file that it names, is wrong.
    static let badConfiguration = ExitCode(rawValue: 78)
}
