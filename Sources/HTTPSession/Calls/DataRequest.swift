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
/// `@unchecked Sendable`: as `Request`; its own properties do not change.
public final class DataRequest: Request, @unchecked Sendable {
    private let uploadProgress: ProgressHandler?
    private let downloadProgress: ProgressHandler?

    init(
        _ request: HTTPSessionRequest,
        manager: HTTPSessionManager,
        options: RequestOptions,
        uploadProgress: ProgressHandler?,
        downloadProgress: ProgressHandler?
    ) {
        self.uploadProgress = uploadProgress
        self.downloadProgress = downloadProgress
        super.init(request, manager: manager, options: options)
    }

    override func makeTask(for request: HTTPSessionRequest) throws(SessionError) -> SessionTask {
        let task: DataTask
        if request.body.length == .none {
            task = try manager.session.dataTask(with: request)
        } else {
            let upload = try manager.session.uploadTask(request, isStreamed: false)
            if let uploadProgress {
                upload.uploadDelegate.setUploadProgressHandler(on: uploadProgress.queue, uploadProgress.handler)
            }
            task = upload
        }
        if let downloadProgress {
            task.dataDelegate.setProgressHandler(on: downloadProgress.queue, downloadProgress.handler)
        }
        return task
    }
}
