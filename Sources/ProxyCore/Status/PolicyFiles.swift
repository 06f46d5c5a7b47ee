// SPDX-License-Identifier: Apache-2.0
/// The files that the policy in force was read from, beside those on the disk.
package struct PolicyFiles: Sendable, Equatable {
    /// A reading of the files.
    package struct Reading: Sendable, Equatable {
        /// `FileRecord.fingerprint`.
        package var digest: String
        /// Seconds since 1970.
        package var time: Int64

        package init(digest: String, time: Int64) {
            self.digest = digest
            self.time = time
        }
    }

    /// The reading that is in force, with the time of its load.
    package var inForce: Reading
    /// The last reading, applied or not, with the time when the files were last seen to hold that.
    package var onDisk: Reading
    /// Whether files may have changed since, and are to be read.
    package var isPending = false

    package init(inForce: Reading) {
        self.inForce = inForce
        onDisk = inForce
    }

    /// Whether the policy in force is that of the files, as far as is known.
    package var isCurrent: Bool { !isPending && inForce.digest == onDisk.digest }
}
