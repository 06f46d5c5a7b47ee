// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func destination(_ session: HTTPSessionManager, _ folder: String) async throws {
    let download = try session.download(
        .get,
        "image/png",
        to: { _, _ in (folder + "/image.png", [.removePreviousFile, .createIntermediateDirectories]) }
    )
    print(try await download.response().path)
}

func suggestedDestination(_ session: HTTPSessionManager, _ folder: String) async throws {
    let destination = DownloadRequest.suggestedDownloadDestination(in: folder, options: .removePreviousFile)
    print(try await session.download(.get, "image/png", to: destination).response().path)
}

func downloadProgress(_ session: HTTPSessionManager, _ folder: String) async throws {
    let destination = DownloadRequest.suggestedDownloadDestination(in: folder, options: .removePreviousFile)
    let progress = ProgressHandler { print("Download Progress: \($0.fraction ?? 0)") }
    print(try await session.download(.get, "image/png", progress: progress, to: destination).response().path)
}

func cancelAndResume(_ session: HTTPSessionManager, _ folder: String) async throws {
    let destination = DownloadRequest.suggestedDownloadDestination(in: folder, options: .removePreviousFile)
    let download = try session.download(.get, "slow", to: destination)
    let ending = Task { try? await download.response() }
    while (download.task?.countOfBytesReceived ?? 0) == 0 { try await Task.sleep(for: .milliseconds(1)) }
    let resumeData = await withCheckedContinuation { continuation in
        download.cancel { continuation.resume(returning: $0) }
    }
    _ = await ending.value
    guard let resumeData else { return print("nothing to resume") }
    print(try await session.download(resumingWith: resumeData, to: destination).response().path)
}
