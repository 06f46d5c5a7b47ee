// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// Why the thread of warnings and reports cannot start.
package enum MonitoringFailure: Error {
    /// The file of `reports` cannot be opened.
    case file(path: String, IOFailure)
    /// The system has no more threads or descriptors.
    case system(String)
}
