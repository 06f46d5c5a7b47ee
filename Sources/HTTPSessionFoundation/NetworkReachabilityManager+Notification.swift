public import Foundation
public import HTTPSession
public import SessionCore

extension NetworkReachabilityManager {
    /// Posted on each change of the status, by the manager as object; see `startPostingNotifications`.
    public static let statusDidChangeNotification = Notification.Name("NetworkReachabilityManager.statusDidChange")

    /// Under this key of the notification's `userInfo` is the `NetworkReachabilityStatus`.
    public static let statusKey = "NetworkReachabilityManager.status"

    /// Listens, and posts a notification when the status is known and whenever it changes. Observers are called on
    /// the manager's thread, unless they name a queue.
    public func startPostingNotifications(
        to center: NotificationCenter = .default
    ) throws(SessionError) {
        let poster = Poster(center: center, manager: self)
        try startListening { poster.post($0) }
    }

    /// `@unchecked Sendable`: the center is safe on any thread (NotificationCenter's documentation), and the reference
    /// to the manager, which owns this, is weak and never changed by us.
    private final class Poster: @unchecked Sendable {
        private let center: NotificationCenter
        private weak var manager: NetworkReachabilityManager?

        init(center: NotificationCenter, manager: NetworkReachabilityManager) {
            self.center = center
            self.manager = manager
        }

        func post(_ status: NetworkReachabilityStatus) {
            guard let manager else { return }
            center.post(
                name: NetworkReachabilityManager.statusDidChangeNotification,
                object: manager,
                userInfo: [NetworkReachabilityManager.statusKey: status]
            )
        }
    }
}
