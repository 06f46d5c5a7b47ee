import CLibcurl
import CShims

/// libcurl's callbacks, each handed on to the transfer that owns the handle.
extension TransferPool {
    func makeHandle(_ errorText: UnsafeMutablePointer<CChar>) -> UnsafeMutableRawPointer? {
        var callbacks = pinproxy_transfer_callbacks(
            header: { owner, line, count in
                let span = TransferPool.span(line, count)
                return TransferPool.transfer(owner).takeLine(span)
            },
            body: { owner, data, count in
                let span = TransferPool.span(data, count)
                return TransferPool.transfer(owner).takeBody(span)
            },
            upload: { owner, room, count in
                TransferPool.transfer(owner).giveBody(UnsafeMutableRawBufferPointer(start: room, count: count))
            },
            tls: { owner, context in
                TransferPool.transfer(owner).prepareTLS(OpaquePointer(context!))
            },
            ready: { owner, ssl, address, port, localPort in
                TransferPool.transfer(owner).isReady(
                    ssl.map { OpaquePointer($0) },
                    address: address,
                    port: port,
                    localPort: UInt16(truncatingIfNeeded: localPort)
                )
            },
            open: { owner, address, length, family, _, _ in
                address.map { TransferPool.transfer(owner).openSocket($0, length, family: family) } ?? -1
            }
        )
        return pinproxy_easy_create(
            &callbacks,
            errorText,
            // Seconds, for connections without TLS; those with it have their time looked at for each request.
            Int((connectionLifetime + 999_999_999) / 1_000_000_000),
            { owner, descriptor in
                Unmanaged<TransferPool>.fromOpaque(owner!).takeUnretainedValue().closeSocket(descriptor)
                return 0
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
    }

    /// Bytes that libcurl lends for the length of the call.
    @_lifetime(immortal)
    private static func span(_ start: UnsafePointer<CChar>?, _ count: Int) -> Span<UInt8> {
        let raw = UnsafeRawPointer(start) ?? UnsafeRawPointer(bitPattern: 1)!
        let span = Span<UInt8>(_unsafeStart: raw.assumingMemoryBound(to: UInt8.self), count: start == nil ? 0 : count)
        return unsafe _overrideLifetime(span, copying: ())
    }

    private static func transfer(_ owner: UnsafeMutableRawPointer?) -> Transfer {
        Unmanaged<Transfer>.fromOpaque(owner!).takeUnretainedValue()
    }
}
