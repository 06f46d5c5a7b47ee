// SPDX-License-Identifier: Apache-2.0
/// The states of a request; the names are Alamofire's.
public enum RequestState: Sendable, Equatable {
    /// Made, and not started.
    case initialized
    /// Under way.
    case resumed
    /// Suspended.
    case suspended
    /// Cancelled, and not ended yet.
    case cancelled
    /// Ended, with or without success.
    case finished

    /// Whether this state can change to `next`. A finished or cancelled request stays so, except that a cancelled one
    /// finishes.
    func mayBecome(_ next: RequestState) -> Bool {
        switch (self, next) {
        case (.finished, _), (_, .initialized): false
        case (.cancelled, _): next == .finished
        default: self != next
        }
    }
}
