// SPDX-License-Identifier: Apache-2.0
import HTTPSession

/// - Returns: resume data of a download that was cut off; nil when the file is complete.
func download(with manager: HTTPSessionManager, to path: String) async throws -> [UInt8]? {
    let request = try manager.download(.get, "files/large.iso", to: { _, _ in (path, [.removePreviousFile]) })
    let progress = request.downloadProgress()
    Task {
        for await figure in progress { print(figure.completedBytes, "of", figure.totalBytes ?? 0, "bytes") }
    }
    do {
        print("complete:", try await request.response().path)
        return nil
    } catch {
        guard let resumeData = request.resumeData else { throw error }
        return resumeData
    }
}

func resume(_ resumeData: [UInt8], with manager: HTTPSessionManager, to path: String) async throws {
    let request = try manager.download(resumingWith: resumeData, to: { _, _ in (path, [.removePreviousFile]) })
    let response = try await request.response()
    // 206: the rest has come. 200: the server has another version by now, and the whole file has come.
    print(response.response.status, response.path)
}

func downloadWithRetries(with manager: HTTPSessionManager, to path: String) async throws {
    let options = RequestOptions(interceptor: RetryPolicy(retryLimit: 5))
    let request = try manager.download(.get, "files/large.iso", options: options, to: { _, _ in (path, []) })
    print("complete:", try await request.response().path, "after", request.retryCount, "retries")
}
