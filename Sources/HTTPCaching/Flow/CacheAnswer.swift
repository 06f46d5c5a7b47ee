// SPDX-License-Identifier: Apache-2.0
/// A response from the cache. An object: it passes through several hands, and a copy of all its parts would cost more.
package final class CacheAnswer {
    package let head: CacheResponse
    package let body: CacheAnswerBody
    package let status: CacheStatus
    /// Whether a background revalidation is needed: see `CacheTransaction.refresh`.
    package let refreshes: Bool

    init(head: CacheResponse, body: CacheAnswerBody, status: CacheStatus, refreshes: Bool) {
        self.head = head
        self.body = body
        self.status = status
        self.refreshes = refreshes
    }
}

/// The location of a body; `CacheResponse.body` is the range to send.
package enum CacheAnswerBody {
    case memory(StoredBytes)
    /// A file: to be read with `DiskStore.read`, or sent from its descriptor.
    case file(StoredBody)
    /// It is still being received: to be read at its own pace.
    case growing(GrowingReader)
}

/// The outcome of a request at the cache, for the task log.
package enum CacheOutcome: String, Hashable, Sendable {
    case hit, miss, stale, revalidated, bypass

    package var text: StaticString {
        switch self {
        case .hit: "hit"
        case .miss: "miss"
        case .stale: "stale"
        case .revalidated: "revalidated"
        case .bypass: "bypass"
        }
    }
}

/// How a request continues beside others for the same key.
enum FlightWake {
    case lookUp, goAlone, lead
    /// Another request is receiving a response, which may be for this one, too.
    case readAlong(GrowingResponse)
}

/// The end of a request that others wait for.
enum FlightEnding {
    case stored, notForOthers
    /// No response, an incomplete one, or one that could not be stored; the next one may succeed.
    case failed
    /// Its client disconnected: the origin has not failed.
    case abandoned
}
