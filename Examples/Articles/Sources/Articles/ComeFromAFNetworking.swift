// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession
import ServerTrust

func makePinnedManager(_ key: String, _ backupKey: String) throws -> HTTPSessionManager {
    var settings = SecurityPolicy.Configuration()
    settings.pinningMode = .publicKey
    settings.pins = [Pin(try PublicKeyPin(key)), Pin(try PublicKeyPin(backupKey), isBackup: true)]
    let manager = try HTTPSessionManager(
        baseURL: "https://api.example.com/v1/",
        serverTrust: SessionTrust(
            anchors: try .system(),
            policies: [try Host("api.example.com"): try SecurityPolicy(settings)]
        )
    )
    manager.requestSerializer = JSONRequestSerializer()
    manager.responseSerializer = .json
    return manager
}

func getItems(with manager: HTTPSessionManager) throws {
    try manager.get("items", parameters: ["page": 2]) { result in
        switch result {
        case .success(let response): print(response.value)
        case .failure(let failure): print(failure)
        }
    }
}

func getItemsAwaited(with manager: HTTPSessionManager) async throws {
    let response = try await manager.get("items", parameters: ["page": 2])
    print(response.value)
}

func downloadToFolder(with manager: HTTPSessionManager, _ folder: String) async throws {
    let task = try manager.session.downloadTask(
        with: HTTPSessionRequest(url: try manager.url("files/report.pdf"))
    ) { _, response in
        (folder + "/" + (response.suggestedFilename ?? "report"), [])
    }
    task.downloadDelegate.setProgressHandler { print($0.fraction ?? 0) }
    print(try await task.value().path)
}
