// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The variables of the environment that a configuration takes values from, which may be secrets, and their names.
final class EnvironmentVariables {
    private(set) var names: Set<String> = []

    /// A variable whose value is read later.
    func note(_ name: String) { names.insert(name) }

    /// The value of a variable; nil when it is not set.
    func value(_ name: String) -> [UInt8]? {
        guard !name.isEmpty, !name.utf8.contains(0), !name.utf8.contains(UInt8(ascii: "=")) else { return nil }
        names.insert(name)
        return getenv(name).map { Array(String(cString: $0).utf8) }
    }
}
