import HTTPCore
import IOCore

/// Waiting for the response to another request.
extension CacheTransaction {
    private static let ownConditions: FieldNameSet = [.ifNoneMatch, .ifModifiedSince, .range, .ifRange]

    /// Whether this request and others are likely to be able to share one response.
    var isCollapsible: Bool {
        request.method == .get && request.policy == .useProtocolCachePolicy && !request.hasCredentials
            && !request.control.noStore && request.control.noCache == nil
            && !request.fields.containsAny(of: Self.ownConditions)
    }

    func wait() {
        switch cache.join(self, now: loop.now) {
        case .lead:
            isLeader = true
            // Another request may have stored its response and ended since this one's lookup.
            if cache.storedFlightCount == flightsBeforeLookup { forward() } else { lookUp(mayWait: false) }
        case .goAlone:
            forward()
        case .wait(let until):
            let timer = LoopTimer { [weak self] in
                guard let self else { return }
                cache.expire(key, now: max(loop.now, until))
            }
            self.timer = timer
            loop.arm(timer, at: until)
        }
    }

    func wake(_ wake: Wake) {
        stopTimer()
        guard !isOver else {
            // It was cancelled meanwhile: the next one leads.
            if wake == .lead { cache.leaderDidEnd(self, .abandoned, now: loop.now) }
            return
        }
        switch wake {
        case .goAlone: forward()
        case .lead:
            isLeader = true
            forward()
        case .lookUp:
            isCollapsed = true
            lookUp(mayWait: false)
        }
    }

    func stopTimer() {
        if let timer { loop.remove(timer) }
        timer = nil
    }
}
