// SPDX-License-Identifier: Apache-2.0
import Glibc

/// A system call that failed.
package struct IOFailure: Error, CustomStringConvertible, Sendable, Equatable {
    /// The `errno` value.
    package let code: Int32
    /// The call's name.
    package let call: StaticString

    package init(code: Int32, during call: StaticString) {
        self.code = code
        self.call = call
    }

    package static func == (left: IOFailure, right: IOFailure) -> Bool { left.code == right.code }

    /// The system's message for the error, without the call.
    package var reason: String {
        // The system's message is "No such device or address".
        if code == ENXIO, "\(call)" == "open" { return "no process reads from this FIFO" }
        return String(cString: strerror(code))
    }

    package var description: String { "\(call): \(reason)" }
}
