// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

// `CommandLine.arguments` is empty where /proc is not mounted.
let words = (0..<pinproxy_argument_count()).compactMap { pinproxy_argument($0).map { String(cString: $0) } }
exit(Program.run(Array((words.isEmpty ? CommandLine.arguments : words).dropFirst())).rawValue)
