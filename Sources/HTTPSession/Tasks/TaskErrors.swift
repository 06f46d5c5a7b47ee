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
            self.init(.redirectDenied, "The redirect's Location is no single http or https URL that can be read.")
        case .tooMany:
            self.init(.redirectDenied, "The answer is one more redirect after \(redirects.limit) of them.")
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
            "\(from) redirects to \(to), which \(why). Ask for it by itself, or follow it in taskWillPerformHTTPRedirection."
        )
    }
}

extension SessionError {
    static let taskCancelled = SessionError(.cancelled, "The task was cancelled.")
}
