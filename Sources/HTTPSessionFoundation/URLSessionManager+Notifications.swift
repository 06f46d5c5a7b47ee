// SPDX-License-Identifier: Apache-2.0
public import Foundation
public import HTTPSessionCore

extension URLSessionManager {
    /// A task was resumed. The object of these notifications is the task.
    public static let taskDidResumeNotification = Notification.Name("URLSessionManager.taskDidResume")
    /// A task was suspended.
    public static let taskDidSuspendNotification = Notification.Name("URLSessionManager.taskDidSuspend")
    /// A task is complete. `userInfo` has the values below as far as they exist.
    public static let taskDidCompleteNotification = Notification.Name("URLSessionManager.taskDidComplete")
    /// A download could not be moved. `userInfo` has the error.
    public static let downloadTaskDidFailToMoveFileNotification = Notification.Name(
        "URLSessionManager.downloadTaskDidFailToMoveFile"
    )
    /// The session and its tasks have ended. There is no object: the manager may have been released.
    public static let didInvalidateNotification = Notification.Name("URLSessionManager.didInvalidate")

    /// The key of the `ResponseHead`.
    public static let responseKey = "URLSessionManager.response"
    /// The key of the collected body, as `Data`.
    public static let responseDataKey = "URLSessionManager.responseData"
    /// The key of the `SessionError`.
    public static let errorKey = "URLSessionManager.error"
    /// The key of a download's `URL`.
    public static let fileURLKey = "URLSessionManager.fileURL"
    /// The key of the `TaskMetrics`.
    public static let metricsKey = "URLSessionManager.metrics"

    /// Posts notifications about the tasks from now on, on the session's callback queue, for each task in order.
    public func startPostingNotifications(to center: NotificationCenter = .default) {
        let center = Center(center)
        observe { event in
            switch event {
            case .didResume(let task): center.post(Self.taskDidResumeNotification, task)
            case .didSuspend(let task): center.post(Self.taskDidSuspendNotification, task)
            case .didComplete(let task): center.post(Self.taskDidCompleteNotification, task, Self.outcome(of: task))
            case .moveFailed(let task, let error):
                center.post(Self.downloadTaskDidFailToMoveFileNotification, task, [Self.errorKey: error])
            case .didInvalidate: center.post(Self.didInvalidateNotification, nil)
            }
        }
    }

    private static func outcome(of task: SessionTask) -> [String: Any] {
        var all: [String: Any] = [:]
        all[responseKey] = task.response
        all[responseDataKey] = task.delegate.data.map { Data($0) }
        all[errorKey] = task.error
        all[metricsKey] = task.delegate.metrics
        if let path = (task.delegate as? DownloadTaskDelegate)?.filePath {
            all[fileURLKey] = URL(fileURLWithPath: path)
        }
        return all
    }

    /// `@unchecked Sendable`: a center is safe on any thread (NotificationCenter's documentation).
    private final class Center: @unchecked Sendable {
        private let center: NotificationCenter

        init(_ center: NotificationCenter) { self.center = center }

        func post(_ name: Notification.Name, _ task: SessionTask?, _ values: [String: Any]? = nil) {
            center.post(name: name, object: task, userInfo: values)
        }
    }
}
