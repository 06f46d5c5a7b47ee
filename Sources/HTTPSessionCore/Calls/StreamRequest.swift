// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// One request of an `HTTPSessionManager` whose response is read while it arrives. Attempts are repeated until a head
/// has been accepted.
///
/// `@unchecked Sendable`: as `Request`; its own properties do not change.
final class StreamRequest: Request, @unchecked Sendable {
    private let validation: ResponseValidation

    init(
        _ request: HTTPSessionRequest,
        manager: HTTPSessionManager,
        options: RequestOptions,
        validation: ResponseValidation
    ) {
        self.validation = validation
        super.init(request, manager: manager, options: options)
    }

    override func makeTask(for request: HTTPSessionRequest) throws(SessionError) -> SessionTask {
        let task =
            request.body.length == .none
            ? try manager.session.dataTask(with: request) : try manager.session.uploadTask(request, isStreamed: false)
        task.dataDelegate.stream = (ByteStream(), validation)
        return task
    }

    /// Sends the request, and returns when the head of the response has been accepted. When the calling Swift task is
    /// cancelled before, the request is cancelled.
    @concurrent
    func open() async throws(RequestFailure) -> ResponseStream {
        let result = await withTaskCancellationHandler {
            () async -> Result<ResponseStream, RequestFailure> in
            do throws(RequestFailure) { return .success(try await attempts()) } catch { return .failure(error) }
        } onCancel: {
            cancel()
        }
        return try result.get()
    }

    private func attempts() async throws(RequestFailure) -> ResponseStream {
        guard beginOnce() else { preconditionFailure("a stream is opened once") }
        do throws(RequestFailure) {
            while true {
                do throws(RequestFailure) {
                    return try await attempt()
                } catch {
                    try await waitToRetry(after: error)
                }
            }
        } catch {
            finish()
            throw error
        }
    }

    private func attempt() async throws(RequestFailure) -> ResponseStream {
        guard let task = try begin(try await adapt()) as? DataTask, let (stream, _) = task.dataDelegate.stream else {
            preconditionFailure("a stream's task")
        }
        task.delegate.whenComplete { stream.end(task.error) }
        do throws(SessionError) {
            let head = try await stream.head()
            task.delegate.whenComplete { [self] in
                didEnd(task)
                finish()
            }
            let response = ReceivedResponse(head: head, url: task.currentRequest.url)
            return ResponseStream(response, task, stream, manager.givenDecoder)
        } catch {
            didEnd(task)
            throw failure(of: task, error)
        }
    }

    /// The error of an attempt; a response that `validation` rejected is reported as such.
    private func failure(of task: DataTask, _ error: SessionError) -> RequestFailure {
        guard error.code == .responseInvalid, let head = task.response, let metrics = task.delegate.metrics,
            let reason = validation.fault(of: head)
        else { return .session(error) }
        let response = DataResponse(response: head, url: task.currentRequest.url, metrics: metrics)
        let name = RequestName.text(task.currentRequest.method, response.url)
        return .serialization(ResponseSerializationError(reason, response: response).named(name))
    }
}
