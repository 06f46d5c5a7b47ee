// SPDX-License-Identifier: Apache-2.0
import Glibc
import ProxyCore

/// Colours and weights (ECMA-48, SGR), for terminals only.
struct TerminalStyle {
    enum Mark: String {
        case bold = "1"
        case dim = "2"
        case red = "31"
        case green = "32"
        case yellow = "33"
    }

    var isOn: Bool

    /// The style of the standard output: plain when it is no terminal, when the terminal is dumb, and when the user
    /// wants no colour (no-color.org).
    static var standardOutput: TerminalStyle { style(of: STDOUT_FILENO) }

    /// The style of the standard error.
    static var standardError: TerminalStyle { style(of: STDERR_FILENO) }

    private static func style(of descriptor: Int32) -> TerminalStyle {
        TerminalStyle(isOn: LogText.showsColours(descriptor))
    }

    func callAsFunction(_ text: String, _ marks: Mark...) -> String {
        isOn ? "\u{1b}[\(marks.map(\.rawValue).joined(separator: ";"))m\(text)\u{1b}[0m" : text
    }
}
