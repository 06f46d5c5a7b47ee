// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// Writes a whole text to a descriptor, with as many write(2) calls as necessary.
package enum DescriptorOutput {
    /// Blocks while the descriptor is not writable: never on a loop.
    ///
    /// - Returns: 0, or the `errno` value of the failure.
    @discardableResult
    package static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int32 {
        var rest = bytes[...]
        while !rest.isEmpty {
            let part = UnsafeRawBufferPointer(rebasing: rest)
            let written = pinproxy_write_file(descriptor, part.baseAddress, part.count)
            if written == -Int(EAGAIN) {
                var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&waiting, 1, -1)
            } else if written <= 0 {
                return Int32(-written)
            } else {
                rest = rest.dropFirst(written)
            }
        }
        return 0
    }

    @discardableResult
    package static func write(_ text: String, to descriptor: Int32) -> Int32 {
        var text = text
        return text.withUTF8 { write(UnsafeRawBufferPointer($0), to: descriptor) }
    }
}
