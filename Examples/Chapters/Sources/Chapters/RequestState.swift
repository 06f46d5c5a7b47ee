// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func progressOfBoth(_ session: HTTPSessionManager) async throws {
    let request = try session.request(
        .post,
        "post",
        parameters: ["foo": "bar"],
        uploadProgress: ProgressHandler { print($0) },
        downloadProgress: ProgressHandler { print($0) }
    )
    debugPrint(try await request.response(serializer: .decodable(Seen.self)))
}

func redirectsOfARequest(_ session: HTTPSessionManager) async throws {
    var options = RequestOptions()
    options.taskWillPerformHTTPRedirection = { _, _, _ in .proceed }
    debugPrint(try await session.get("redirect", options: options, serializer: .decodable(Seen.self)))
}

func cachingOfARequest(_ session: HTTPSessionManager) async throws {
    var options = RequestOptions()
    options.dataTaskWillCacheResponse = { _, proposed in proposed }
    debugPrint(try await session.get("get", options: options, serializer: .decodable(Seen.self)))
}

func credentialOfARequest(_ session: HTTPSessionManager) async throws {
    let options = RequestOptions(credential: Credential(user: "user@example.domain", password: "password"))
    debugPrint(try await session.get("get", options: options, serializer: .decodable(Seen.self)))
}

struct Values: EventMonitor {
    func request(_ request: Request, didAdapt initial: HTTPSessionRequest, to adapted: HTTPSessionRequest) {
        print(adapted)
    }

    func request(_ request: Request, didCreate task: SessionTask) {
        print(task)
    }
}

func valuesOfARequest(_ session: HTTPSessionManager) async throws {
    let options = RequestOptions(eventMonitors: [Values()])
    debugPrint(try await session.get("get", options: options, serializer: .decodable(Seen.self)))
}

func validationOfARequest(_ session: HTTPSessionManager) async throws {
    let validation = ResponseValidation { response in print(response.data.count) }
    _ = try await session.get("get", serializer: HTTPResponseSerializer(validation: validation))
}

func cancelADownload(_ session: HTTPSessionManager) throws {
    try session.download(.get, "slow").cancel { resumeData in
        print(resumeData?.count ?? 0)
    }
}
