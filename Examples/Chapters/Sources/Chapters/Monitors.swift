// SPDX-License-Identifier: Apache-2.0
import HTTPSession
import SessionCore

struct Log: EventMonitor {
    func request(_ request: Request, didComplete task: SessionTask, with error: SessionError?) {
        debugPrint(request.request.url)
    }
}

func sessionWithAMonitor(_ configuration: HTTPSessionManager.Configuration) throws -> HTTPSessionManager {
    try HTTPSessionManager(baseURL: "https://httpbin.org", configuration: configuration, eventMonitors: [Log()])
}
