// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession
import HTTPSessionStubs
import ServerTrust
import SessionCore
import TestSupport

/// A manager whose requests go to a stub origin.
struct StubStage {
    static let base = "https://api.example.com"
    let origin = StubOrigin()
    let manager: HTTPSessionManager

    /// - Parameter isPinned: whether the base URL's host has pins, which no stub can prove.
    init(
        isPinned: Bool = false,
        interceptor: (any RequestInterceptor)? = nil,
        monitors: [any EventMonitor] = [],
        baseURL: String? = base,
        _ change: (inout HTTPSessionManager.Configuration) -> Void = { _ in }
    ) throws {
        var configuration = HTTPSessionManager.Configuration()
        configuration.answerRequests(with: origin)
        // Handlers run on Swift's threads, which the other tests hold for minutes.
        configuration.timeouts = TaskTimeouts(firstByte: .seconds(3600), stall: .seconds(3600))
        change(&configuration)
        var trust = SessionTrust(anchors: TestPKI.shared.anchors)
        if isPinned { trust.policies[try Host("api.example.com")] = try .pinning(HTTPStage.server.pin) }
        manager = try HTTPSessionManager(
            baseURL: baseURL,
            configuration: configuration,
            serverTrust: trust,
            interceptor: interceptor,
            eventMonitors: monitors
        )
    }

    func end() async { await manager.invalidateSession(cancelingTasks: true) }
}
