// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// One request of a session and its response, as they went over the connection.
struct RecordedExchange: Sendable {
    let method: HTTPMethod
    let url: AbsoluteURL
    let fields: HeaderFields
    var sent: RecordedBody
    /// nil when none has come.
    var response: ResponseHead?
    var received: RecordedBody
    /// nil for a whole response, and for one whose body the session did not want.
    var error: SessionError?
    var metrics = TaskMetrics()

    init(_ request: SessionRequest, limit: Int) {
        method = request.method
        url = request.url
        fields = request.fields
        sent = RecordedBody(limit: limit)
        received = RecordedBody(limit: limit)
    }

    /// The memory of the bodies, and an estimate of the rest.
    var footprint: Int { sent.bytes.count + received.bytes.count + 2048 }
}

/// The bytes of a body, up to a limit.
struct RecordedBody: Sendable {
    let limit: Int
    /// Empty when the body is longer than the limit.
    private(set) var bytes: [UInt8] = []
    /// How long it is.
    private(set) var count = 0

    init(limit: Int) { self.limit = limit }

    var isKept: Bool { count <= limit }

    mutating func append(_ piece: borrowing Span<UInt8>) {
        count += piece.count
        guard isKept else {
            bytes = []
            return
        }
        for index in 0..<piece.count { bytes.append(piece[index]) }
    }
}
