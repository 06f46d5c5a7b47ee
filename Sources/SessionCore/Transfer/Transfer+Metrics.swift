import CShims
import HTTPCore

extension Transfer {
    /// What libcurl and the transfer know of the exchange, in the terms of the task's metrics.
    func collectMetrics(into metrics: inout TaskMetrics) {
        guard !isQueued else {
            // libcurl never had it.
            metrics.transaction = TransactionMetrics()
            return
        }
        describeFailedHandshake()
        var info = pinproxy_transfer_info()
        pinproxy_easy_info(easy, &info)
        var transaction = TransactionMetrics()
        let start = times.start
        func time(_ value: Int64) -> Int64 { value > 0 ? start + value : TransactionMetrics.absent }
        transaction.fetchStart = start
        let isHandshakeBroken = attempts == 0 && times.secureConnectionStart != TransactionMetrics.absent
        transaction.isReusedConnection = attempts > 0 && info.new_connections == 0
        if isHandshakeBroken {
            transaction.domainLookupStart = start
            transaction.domainLookupEnd = times.connectStart
            transaction.connectStart = times.connectStart
            transaction.secureConnectionStart = times.secureConnectionStart
            transaction.secureConnectionEnd = times.secureConnectionEnd
            transaction.connectEnd = times.secureConnectionEnd
        } else if info.new_connections > 0 {
            transaction.domainLookupStart = start
            transaction.domainLookupEnd = time(info.name_lookup)
            transaction.connectStart = transaction.domainLookupEnd
            transaction.connectEnd = info.tls > 0 ? time(info.tls) : time(info.connect)
            if info.tls > 0 {
                transaction.secureConnectionStart = time(info.connect)
                transaction.secureConnectionEnd = time(info.tls)
            }
        }
        if attempts > 0 {
            transaction.requestStart = time(info.pre_transfer)
            transaction.requestEnd =
                times.requestEnd == TransactionMetrics.absent ? transaction.requestStart : times.requestEnd
            transaction.requestHeaderBytesSent = Int64(info.request_size)
            transaction.requestBodyBytesSent = info.uploaded
        }
        if response.hasHead {
            transaction.status = response.head.status
            transaction.responseStart = times.responseStart
            transaction.responseEnd = max(time(info.total), times.responseStart)
            transaction.responseHeaderBytesReceived = Int64(info.header_size)
            transaction.responseBodyBytesReceived = info.downloaded
            transaction.protocolVersion = Int(response.head.majorVersion) * 10 + Int(response.head.minorVersion)
        }
        transaction.connection = connection
        metrics.transaction = transaction
    }
}
