// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// One request of an `HTTPSessionManager` whose response is collected and serialized to an object.
///
/// ```swift
/// let request = try manager.request(.get, "items", parameters: ["page": 2])
/// let items = try await request.response(serializer: DecodableResponseSerializer([Item].self)).value
/// ```
///
/// `@unchecked Sendable`: as `Request`; `received` has a lock, and the other properties do not change.
public final class DataRequest: Request, @unchecked Sendable {
    private let uploadHandler: ProgressHandler?
    private let downloadHandler: ProgressHandler?

    private let received = Received<DataResponse>()

    /// The response of the latest attempt that has one.
    var latest: DataResponse? {
        get { received.response }
        set { received.response = newValue }
    }

    init(
        _ request: HTTPSessionRequest,
        manager: HTTPSessionManager,
        options: RequestOptions,
        uploadProgress: ProgressHandler?,
        downloadProgress: ProgressHandler?
    ) {
        uploadHandler = uploadProgress
        downloadHandler = downloadProgress
        super.init(request, manager: manager, options: options)
    }

    override func makeTask(for request: HTTPSessionRequest) throws(SessionError) -> SessionTask {
        let task: DataTask
        if request.body.length == .none {
            task = try manager.session.dataTask(with: request)
        } else {
            let upload = try manager.session.uploadTask(request, isStreamed: false)
            if let uploadHandler {
                upload.uploadDelegate.setUploadProgressHandler(on: uploadHandler.queue, uploadHandler.handler)
            }
            task = upload
        }
        task.dataDelegate.isOfRequest = true
        if let downloadHandler {
            task.dataDelegate.setProgressHandler(on: downloadHandler.queue, downloadHandler.handler)
        }
        return task
    }
}
