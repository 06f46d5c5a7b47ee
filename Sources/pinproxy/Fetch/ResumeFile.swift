// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import ServerTrust

/// The data for resuming an interrupted download, in a file beside the download's.
struct ResumeFile {
    let path: String

    /// - Parameter output: the download's own file.
    init(for output: String) { path = output + ".resume" }

    /// - Returns: nil when there is none.
    func read() throws(CommandFailure) -> [UInt8]? {
        guard access(path, F_OK) == 0 else { return nil }
        switch FileContents.read(path, limit: 1 << 20) {
        case .success(let bytes): return bytes
        case .failure(let fault): throw CommandFailure(.failed, "\(path): \(fault.message)", remedy: fault.remedy)
        }
    }

    /// - Returns: whether the data is on the disk.
    func write(_ bytes: [UInt8]) -> Bool {
        do throws(IOFailure) {
            // A link at this path must not be followed.
            try OutputFile(notFollowing: path).write(bytes, as: .secret)
            return true
        } catch {
            return false
        }
    }

    /// Removes the file; a device or a FIFO of that name stays.
    func remove() {
        if (try? OutputFile(notFollowing: path)) != nil { unlink(path) }
    }
}
