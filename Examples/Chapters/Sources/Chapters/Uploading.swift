// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func uploadBytes(_ session: HTTPSessionManager) async throws {
    let upload = HTTPSessionRequest(url: try session.url("post"), method: .post, body: .bytes(Array("data".utf8)))
    print(try await session.response(for: upload, serializer: .decodable(Seen.self)))
}

func uploadFile(_ session: HTTPSessionManager, _ path: String) async throws {
    let upload = HTTPSessionRequest(url: try session.url("post"), method: .post, body: .source(try .file(path)))
    print(try await session.response(for: upload, serializer: .decodable(Seen.self)))
}

func uploadForm(_ session: HTTPSessionManager) async throws {
    let response = try await session.post("post", serializer: .decodable(Seen.self)) { form in
        try form.append("one", name: "one")
        try form.append("two", name: "two")
    }
    print(response)
}

func uploadProgress(_ session: HTTPSessionManager, _ path: String) async throws {
    let upload = HTTPSessionRequest(url: try session.url("post"), method: .post, body: .source(try .file(path)))
    let request = session.request(
        upload,
        uploadProgress: ProgressHandler { print("Upload Progress: \($0.fraction ?? 0)") },
        downloadProgress: ProgressHandler { print("Download Progress: \($0.fraction ?? 0)") }
    )
    print(try await request.response(serializer: .decodable(Seen.self)))
}
