/// Where a `DataRequest` is in its life; the names are Alamofire's.
public enum RequestState: Sendable, Equatable {
    /// Made, and not begun.
    case initialized
    /// Under way.
    case resumed
    /// Held back by `suspend`.
    case suspended
    /// Told to end; its end is still to come.
    case cancelled
    /// Over, well or badly.
    case finished

    /// Whether an event may take it there. What is finished or cancelled stays so, but for a cancelled one's end.
    func mayBecome(_ next: RequestState) -> Bool {
        switch (self, next) {
        case (.finished, _), (_, .initialized): false
        case (.cancelled, _): next == .finished
        default: self != next
        }
    }
}
