// SPDX-License-Identifier: Apache-2.0
public import Foundation
public import HTTPSessionCore
public import SessionCore

extension NetworkReachabilityManager {
    /// Posted at each change of the status, with the manager as object; see `startPostingNotifications`.
    public static let statusDidChangeNotification = Notification.Name("NetworkReachabilityManager.statusDidChange")

    /// The key of the `NetworkReachabilityStatus` in the notification's `userInfo`.
    public static let statusKey = "NetworkReachabilityManager.status"

    /// Starts to listen, and posts a notification when the status is known and at each change. Observers without a
    /// queue of their own are called on the manager's thread.
    public func startPostingNotifications(
        to center: NotificationCenter = .default
    ) throws(SessionError) {
        let poster = Poster(center: center, manager: self)
        try startListening { poster.post($0) }
    }

    /// `@unchecked Sendable`: the center is safe on any thread (NotificationCenter's documentation); the reference to
    /// the manager, which owns this object, is weak and does not change.
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
