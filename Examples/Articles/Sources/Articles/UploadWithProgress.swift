// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func uploadFile(_ path: String, with manager: HTTPSessionManager) async throws {
    let upload = HTTPSessionRequest(
        url: try manager.url("files/report.pdf"),
        method: .put,
        headers: ["Content-Type": "application/pdf"],
        body: .source(try .file(path))
    )
    let request = manager.request(upload)
    let progress = request.uploadProgress()
    Task {
        for await figure in progress { print(Int((figure.fraction ?? 0) * 100), "%") }
    }
    print(try await request.response(serializer: .data).response.response.status)
}

func uploadForm(_ path: String, with manager: HTTPSessionManager) async throws {
    let progress = ProgressHandler { print($0.completedBytes, "bytes sent") }
    try await manager.post("reports", parameters: ["author": "Ada"], progress: progress) { form in
        try form.appendFile(path, name: "report")
    }
}

func uploadSequence(with manager: HTTPSessionManager) async throws {
    let rows = AsyncStream<[UInt8]> { continuation in
        for row in 1...3 { continuation.yield(Array("row \(row)\n".utf8)) }
        continuation.finish()
    }
    let upload = HTTPSessionRequest(
        url: try manager.url("rows"),
        method: .post,
        body: .source(.sequence(rows))
    )
    _ = try await manager.response(for: upload, serializer: .data)
}
