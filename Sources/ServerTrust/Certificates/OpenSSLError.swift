// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import StrictJSON

/// The error of a failed OpenSSL call: the whole error queue of this thread, drained.
public struct OpenSSLError: Error, Hashable, Sendable, CustomStringConvertible {
    /// One entry of the queue.
    public struct Entry: Hashable, Sendable {
        /// OpenSSL's packed error code (`ERR_GET_LIB`, `ERR_GET_REASON`).
        public var code: UInt
        /// "library: reason", with the data that OpenSSL attached, if any.
        public var text: String
    }

    /// The call that failed: constant for each place in this program, fit for a metric's label.
    public var operation: String
    /// Oldest first.
    public var entries: [Entry]

    /// Drains the queue of this thread (`ERR_get_error_all`).
    public init(draining operation: String) {
        self.operation = operation
        entries = []
        while true {
            var data: UnsafePointer<CChar>?
            var flags: Int32 = 0
            let code = ERR_get_error_all(nil, nil, nil, &data, &flags)
            if code == 0 { break }
            var text = ERR_lib_error_string(code).map { String(cString: $0) } ?? "OpenSSL"
            text += ": " + (ERR_reason_error_string(code).map { String(cString: $0) } ?? "error \(code)")
            if flags & ERR_TXT_STRING != 0, let data, data.pointee != 0 {
                text += " (\(LegibleText.cut(String(cString: data), at: 256).legible))"
            }
            entries.append(Entry(code: UInt(code), text: text))
        }
    }

    public var description: String {
        entries.isEmpty ? operation : operation + ": " + entries.map(\.text).joined(separator: "; ")
    }

    /// Runs `body` and removes the errors that it left in the queue (`ERR_set_mark`): a stale entry would make a later
    /// `SSL_get_error` of the caller lie.
    static func keepingQueueClean<Result>(_ body: () -> Result) -> Result {
        ERR_set_mark()
        defer { ERR_pop_to_mark() }
        return body()
    }
}
