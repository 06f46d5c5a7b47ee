// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore

/// A file that is created, and never overwritten.
enum NewFile {
    /// Returns when the data is on the disk: a pin without its key is no backup.
    static func create(_ path: String, _ text: String, as contents: OutputFile.Contents) throws(CommandFailure) {
        do throws(IOFailure) {
            try OutputFile.create(path, Array(text.utf8), as: contents)
        } catch {
            throw CommandFailure(
                .failed,
                "\(Arguments.shown(path: path)) cannot be made: \(error.reason)",
                remedy: error.code == EEXIST ? "nothing is ever overwritten: name a file that does not exist" : ""
            )
        }
    }
}
