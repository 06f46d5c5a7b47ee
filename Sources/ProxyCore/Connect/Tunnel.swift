// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// A CONNECT tunnel: a connection to the host of the CONNECT, whose bytes are relayed unchanged after a TLS hello for
/// that host.
///
/// The origin is dialled first, under the address rules; then the client gets the response to the CONNECT; then its
/// hello is checked. Nothing reaches the origin before that.
final class Tunnel: Relay {
    private let headTime: TimeSpan
    private let authority: Host
    private var reader = ClientHelloReader()
    private var hello = ByteBuffer()

    init(_ owner: any RelayOwner, _ clientStream: ExchangeStream, to endpoint: Endpoint, headTime: TimeSpan) {
        self.headTime = headTime
        authority = endpoint.host
        super.init(owner, clientStream, to: endpoint)
    }

    override func streamTaskDidConnect(_ task: LoopStreamTask) {
        // A TLS server does not send first, and the client must not receive bytes of any other server.
        task.pauseReceiving()
        arm(after: headTime)
        takeOverConnection(checksFirstBytes: true) { owner.writeConnectionEstablished(&$0) }
    }

    override func open(_ bytes: borrowing Span<UInt8>) {
        hello.append(bytes)
        switch reader.consume(bytes) {
        case .needMore: break
        case .failed(let fault): refuse(TunnelRule.refusal(fault))
        case .complete(let found):
            if let refusal = TunnelRule.refusal(found, authority: authority) { return refuse(refusal) }
            disarm()
            beginRelaying(hello.bytes)
            hello.release()
        }
    }

    override func endedWhileOpening() {
        refuse(TunnelRule.Refusal(reason: "the client said nothing that a tunnel may carry", alert: nil))
    }

    override func timeIsUp() {
        guard phase == .opening else { return close() }
        refuse(
            TunnelRule.Refusal(
                reason: "the client's TLS hello was not there within timeouts.head (\(headTime.milliseconds) ms)",
                alert: nil
            )
        )
    }

    /// Ends the tunnel before a byte was sent to the origin.
    private func refuse(_ refusal: TunnelRule.Refusal) {
        if let alert = refusal.alert {
            // A fatal alert in a record of its own (RFC 8446, section 6) shows the client the reason.
            writeLast([21, 3, 3, 0, 2, 2, alert])
        }
        hello.release()
        finish(Problem(.connectDenied, "The tunnel was refused: \(refusal.reason)."))
    }
}
