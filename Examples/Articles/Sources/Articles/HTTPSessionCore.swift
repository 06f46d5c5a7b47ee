// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession
import ServerTrust

func firstRequest() async throws {
    let pins = try PinFile.load(path: "pins")
    let trust = SessionTrust(anchors: try .system(), pinnedDomains: pins.domains)
    let manager = try HTTPSessionManager(serverTrust: trust)
    let response = try await manager.data(for: "https://api.example.com/v1/items")
    print(response.response.status, response.data.count)
    await manager.invalidateSession(cancelingTasks: false)
}
