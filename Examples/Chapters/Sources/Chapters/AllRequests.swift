// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func suspendAll(_ session: HTTPSessionManager) {
    for request in session.activeRequests { request.suspend() }
}

func cancelAll(_ session: HTTPSessionManager, _ queue: CallbackQueue) {
    session.cancelAllRequests(queue: queue) {
        print("Cancelled all requests.")
    }
}
