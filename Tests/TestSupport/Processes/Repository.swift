// SPDX-License-Identifier: Apache-2.0
package import Foundation

/// The checkout that the tests were built from.
package enum Repository {
    /// Its top folder.
    package static let folder = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
}
