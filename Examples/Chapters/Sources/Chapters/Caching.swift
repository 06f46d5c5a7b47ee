// SPDX-License-Identifier: Apache-2.0
import HTTPSession
import SessionCore

func cache(_ configuration: HTTPSessionManager.Configuration) throws -> HTTPSessionManager.Configuration {
    var configuration = configuration
    configuration.cache = try SessionCache(memoryCapacity: 32 << 20)
    configuration.cachePolicy = .returnCacheDataElseLoad
    return configuration
}
