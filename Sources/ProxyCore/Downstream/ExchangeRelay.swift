// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// The relay of an exchange, for a CONNECT or an Upgrade: makes it, and says what its steps mean to the client.
final class ExchangeRelay: RelayOwner {
    private let exchange: StageOwner
    private let stream: ExchangeStream
    private let writer: ClientWriter
    private let route: Route
    private var relay: Relay?
    /// Bytes that were relayed.
    private(set) var bytesFromClient = 0
    private(set) var bytesToClient = 0

    init(of exchange: StageOwner, _ stream: ExchangeStream, _ writer: ClientWriter, on route: Route) {
        self.exchange = exchange
        self.stream = stream
        self.writer = writer
        self.route = route
    }

    /// The task for the log.
    var task: LoopTask? { relay?.task }

    func resumeReceiving() { relay?.stream?.resumeReceiving() }

    /// Lets the relay go, which holds this object.
    func end() { relay = nil }

    // MARK: The beginning

    func tunnel(to endpoint: Endpoint, _ generation: Generation) {
        let tunnel = Tunnel(self, stream, to: endpoint, headTime: generation.headTime)
        relay = tunnel
        tunnel.dial(generation.manager)
    }

    /// - Parameter now: Unix time in seconds.
    func intercept(to endpoint: Endpoint, _ generation: Generation, at now: Int64) {
        do throws(LeafContexts.Refusal) {
            guard let leaves = generation.leaves else { throw LeafContexts.Refusal(reason: "there is none") }
            let context = try leaves.context(for: endpoint.host, at: now)
            let interception = Interception(self, stream, to: endpoint, context: context)
            relay = interception
            interception.dial(generation.manager, endpoint.httpVersion == .http2 ? [.http2, .http1] : [.http1])
        } catch {
            exchange.refuse(
                Problem(
                    .connectDenied,
                    "The local CA cannot stand in for \(endpoint.host): \(error.reason). \(error.remedy)"
                ),
                keepAlive: exchange.canPersist
            )
        }
    }

    func upgrade(by offer: UpgradeOffer, to endpoint: Endpoint, _ generation: Generation) {
        let usual: UInt16 = endpoint.scheme == .https ? 443 : 80
        let name = endpoint.host.authorityText
        var fields = exchange.clientFields(on: route)
        route.hooks?.headers.request.apply(to: &fields)
        exchange.credentials?.removeWritten(from: &fields)
        let signed = SessionRequest(
            endpoint: endpoint,
            method: exchange.head.method,
            target: exchange.target,
            fields: fields
        )
        let request = offer.request(
            exchange.head,
            authority: endpoint.port == usual ? name : "\(name):\(endpoint.port)",
            fields: fields
        )
        let upgrade = ProtocolUpgrade(
            self,
            stream,
            to: endpoint,
            method: exchange.head.method,
            responseHeadLimits: generation.manager.responseHeadLimits,
            offer: offer,
            request: request,
            guarded: exchange.admission.credentials.fields(of: signed)
        )
        relay = upgrade
        upgrade.dial(generation.manager, endpoint.scheme == .https ? [.http1] : [])
    }

    // MARK: From the relay

    var authenticatedUser: (name: [UInt8], credentials: ClientCredentials)? { exchange.identity.authenticated }

    func writeConnectionEstablished(_ output: inout ByteBuffer) {
        if stream.transport.redirection != nil {
            // The client has sent no CONNECT, and sees no response to one.
            var unseen = ByteBuffer()
            return writer.writeConnectionEstablished(to: &unseen)
        }
        writer.writeConnectionEstablished(to: &output)
    }

    func writeProtocolSwitch(_ response: borrowing ResponseHead, _ output: inout ByteBuffer) {
        guard let rules = route.hooks else { return writer.writeProtocolSwitch(response, to: &output) }
        let hooks = ExchangeHooks(rules, route: route, deadline: nil)
        hooks.change(response) { writer.writeProtocolSwitch($0, to: &output) }
    }

    /// The host's response rules apply, except that no redirect is followed and no file is written.
    func deliverUnswitched(_ response: borrowing ResponseHead) -> Problem? {
        guard exchange.isUnderWay else { return nil }
        if response.status == 401 { exchange.admission.credentials.noteRefusal() }
        guard let rules = route.hooks else {
            _ = writer.receiveHead(response)
            return nil
        }
        let hooks = ExchangeHooks(rules, route: route, deadline: nil)
        let decision = hooks.decide(response, to: exchange.head, body: .none, router: stream.services.generation.router)
        if case .refuse(let problem) = decision { return problem }
        switch ResponseHook.decide(response, rules) {
        case .cancel(let problem): return problem
        case .allow(let limit) where limit == Int.max || response.contentLength != nil || !response.framing.hasBody:
            break
        case .allow, .becomeDownload:
            return Problem(
                .responseDenied,
                "The response to an Upgrade would become a file, or has no length that could be compared with a limit."
            )
        }
        _ = hooks.change(response, then: writer.receiveHead)
        return nil
    }

    func relayDidReceiveInformational(_ head: borrowing ResponseHead) {
        if exchange.isUnderWay { writer.receiveInformational(head) }
    }

    func relayDidReceive(_ data: borrowing Span<UInt8>) -> BodyFlow {
        exchange.isUnderWay ? writer.receiveBody(data) : .pause
    }

    func relayDidCompleteResponse(trailers: borrowing HeaderFields) {
        guard exchange.isUnderWay else { return }
        if trailers.count > 0 { writer.receiveTrailers(trailers) }
        writer.receiveEnd(nil)
    }

    func countRelayedBytes(fromClient: Int, toClient: Int) {
        bytesFromClient += fromClient
        bytesToClient += toClient
    }

    func relayDidFail(_ error: SessionError, at endpoint: Endpoint) {
        // A refused server puts the origin's stored responses in doubt, whatever the request was.
        if error.originFailure == .untrusted { stream.services.cache?.doubt(endpoint.origin) }
        guard exchange.isUnderWay else { return }
        if error.code == .sessionInvalidated { return exchange.restart(after: nil) }
        let problem = Problem(error)
        if writer.hasBegun { exchange.fail(problem) } else { exchange.refuse(problem, keepAlive: exchange.canPersist) }
    }

    func relayDidRefuse(_ problem: Problem) {
        if exchange.isUnderWay { exchange.refuse(problem, keepAlive: false) }
    }

    func relayDidEnd(_ problem: Problem?) {
        if exchange.isUnderWay { exchange.relayDidEnd(problem) }
    }
}
