// SPDX-License-Identifier: Apache-2.0
import HTTPSession
import SessionCore

func sessionWithAConfiguration(_ own: HTTPSessionManager.Configuration) throws -> HTTPSessionManager {
    var configuration = own
    configuration.additionalHeaders["User-Agent"] = "Chapters"
    return try HTTPSessionManager(baseURL: "https://httpbin.org", configuration: configuration)
}

func sessionWithRetries(_ configuration: HTTPSessionManager.Configuration) throws -> HTTPSessionManager {
    try HTTPSessionManager(configuration: configuration, interceptor: RetryPolicy())
}

func sessionWithAQueue(_ own: HTTPSessionManager.Configuration, _ queue: CallbackQueue) throws -> HTTPSessionManager {
    var configuration = own
    configuration.callbackQueue = queue
    return try HTTPSessionManager(configuration: configuration)
}
