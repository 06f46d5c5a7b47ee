// SPDX-License-Identifier: Apache-2.0
import HTTPSession

struct Logger: EventMonitor {
    func requestDidResume(_ request: Request) {
        print("Resuming: \(request)")
    }

    func request(_ request: Request, didParse response: DataResponse, failure: RequestFailure?) {
        debugPrint("Finished: \(response)")
    }
}

func loggingSession(_ configuration: HTTPSessionManager.Configuration) throws -> HTTPSessionManager {
    try HTTPSessionManager(configuration: configuration, eventMonitors: [Logger()])
}
