// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

extension RedirectProposal.Denial {
    init(_ denial: RedirectMachine.Denial) {
        self =
            switch denial {
            case .losesTLS: .losesTLS
            case .leavesPins: .leavesPins
            }
    }
}

extension SessionError {
    init(_ fault: RedirectMachine.Fault, redirects: RedirectMachine) {
        switch fault {
        case .invalidLocation:
            self.init(.redirectDenied, "The redirect's Location is not a single valid http or https URL.")
        case .tooMany:
            self.init(.redirectDenied, "The response is one more redirect after \(redirects.limit) of them.")
        }
    }

    init(_ denial: RedirectMachine.Denial, from: Origin, to: Origin) {
        let why =
            switch denial {
            case .losesTLS: "goes without TLS"
            case .leavesPins: "is held to no pins"
            }
        self.init(
            .redirectDenied,
            "\(from) redirects to \(to), which \(why). Request that URL directly, or follow the redirect in taskWillPerformHTTPRedirection."
        )
    }
}

extension SessionError {
    static let taskCancelled = SessionError(.cancelled, "The task was cancelled.")
}
