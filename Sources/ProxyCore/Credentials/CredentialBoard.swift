import IOCore

/// TEMPORARY
final class CredentialBoard {
    enum State { case ready(CredentialValue), wait, failed(CredentialFault) }
    func value(_ place: Int) -> State { .wait }
    func name(_ place: Int) -> String { "" }
    var date: Int64 { 0 }
    func refused(_ place: Int, _ value: CredentialValue, then: @escaping () -> Void) -> Bool { false }
    func whenReady(_ place: Int, then: @escaping () -> Void) {}
    let loop: EventLoop
    init(loop: EventLoop) { self.loop = loop }
}
