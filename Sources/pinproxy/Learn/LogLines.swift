// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The lines of a log, from a file or the standard input. Memory stays bounded for any contents.
struct LogLines {
    /// The longest line of a task log: it contains the URL of the longest head twice, escaped.
    static let bound = 1 << 20

    /// The number of lines read.
    private(set) var count = 0
    /// The number of lines longer than `bound`, which are skipped.
    private(set) var tooLong = 0

    /// Reads to the end. A last line without a newline is skipped, because it is still being written.
    ///
    /// - Parameters:
    ///   - path: a file, or `-` for the standard input.
    ///   - body: receives each line without its newline.
    mutating func read(_ path: String, _ body: ([UInt8]) -> Void) throws(CommandFailure) {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure(path, errno) }
        defer { if path != "-" { close(descriptor) } }
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        var line: [UInt8] = []
        var isSkipping = false
        var isFirst = true
        while true {
            let filled = Glibc.read(descriptor, &chunk, chunk.count)
            if filled < 0, errno == EINTR { continue }
            guard filled >= 0 else { throw Self.failure(path, errno) }
            if filled == 0 { return }
            if isFirst, chunk[..<filled].starts(with: [0x1f, 0x8b]) {
                throw CommandFailure(
                    .failed,
                    "\(Arguments.shown(path: path)) is compressed",
                    remedy: "unpack it on the way: zcat FILE | pinproxy …, with - in the place of the file"
                )
            }
            isFirst = false
            var rest = chunk[..<filled]
            while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                line += rest[..<end]
                rest = rest[(end + 1)...]
                count += 1
                if isSkipping || line.count > Self.bound {
                    tooLong += 1
                } else {
                    body(line)
                }
                isSkipping = false
                line.removeAll(keepingCapacity: true)
            }
            line += rest
            if line.count > Self.bound {
                isSkipping = true
                line.removeAll(keepingCapacity: true)
            }
        }
    }

    private static func failure(_ path: String, _ code: Int32) -> CommandFailure {
        CommandFailure(
            code == ENOENT ? .inputMissing : .failed,
            "\(Arguments.shown(path: path)) cannot be read: \(String(cString: strerror(code)))",
            remedy: "name a file of the task log, or - for the standard input"
        )
    }
}
