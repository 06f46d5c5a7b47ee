// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession
import ServerTrust

func pinAFile() async throws {
    let pins = try PinFile.load(path: "pins/api.json")
    let manager = try HTTPSessionManager(
        serverTrust: SessionTrust(anchors: try .system(), pinnedDomains: pins.domains)
    )
    let response = try await manager.data(for: "https://api.example.com/v1/items")
    print(response.response.status, String(decoding: response.data, as: UTF8.self))
    await manager.invalidateSession(cancelingTasks: false)
}

func pinWithoutAFile(_ key: String, _ backupKey: String) throws -> HTTPSessionManager {
    var settings = SecurityPolicy.Configuration()
    settings.pinningMode = .publicKey
    settings.pins = [Pin(try PublicKeyPin(key)), Pin(try PublicKeyPin(backupKey), isBackup: true)]
    let trust = SessionTrust(
        anchors: try .system(),
        policies: [try Host("api.example.com"): try SecurityPolicy(settings)],
        allHostsMustBeEvaluated: true
    )
    return try HTTPSessionManager(baseURL: "https://api.example.com/v1", serverTrust: trust)
}
