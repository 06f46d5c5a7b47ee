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
    /// A listener's address cannot be had.
    static let cannotBind = ExitCode(rawValue: 69)
    /// The system refused what a program may expect of it, or the program is wrong.
    static let `internal` = ExitCode(rawValue: 70)
    /// A security policy refused the server.
    static let refused = ExitCode(rawValue: 77)
    /// The configuration, or a file that it names, is wrong.
    static let badConfiguration = ExitCode(rawValue: 78)
}
