// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SessionCore

@Suite("The requests on one HTTP/2 connection")
struct StreamLoadTests {
    /// A connection with promised requests, and with some that have begun and ended.
    private func load(promised: Int = 0, ended: Int = 0) -> StreamLoad {
        var load = StreamLoad()
        for _ in 0..<ended {
            load.promise()
            load.redeemPromise()
            _ = load.begin(of: .max)
            load.end()
        }
        for _ in 0..<promised { load.promise() }
        return load
    }

    @Test("streams and promised ones together leave room below the server's limit")
    func streams() {
        for (promised, streams, allowed, hasRoom) in [
            (0, 0, 1, true), (0, 1, 1, false), (1, 0, 1, false), (1, 1, 3, true), (2, 1, 3, false), (0, 0, 0, false),
        ] {
            let load = load(promised: promised)
            #expect(load.hasRoom(beside: streams, of: allowed, requests: .max) == hasRoom)
        }
    }

    @Test("there are never more than a hundred streams")
    func most() {
        #expect(load().hasRoom(beside: 99, of: 1000, requests: .max))
        #expect(!load().hasRoom(beside: 100, of: 1000, requests: .max))
        #expect(!load(promised: 1).hasRoom(beside: 99, of: 1000, requests: .max))
    }

    @Test("a server that ends connections after some requests gets no more of them")
    func requests() {
        for (promised, ended, requests, hasRoom) in [
            (0, 0, 1, true), (1, 0, 1, false), (0, 1, 1, false), (1, 1, 3, true), (2, 1, 3, false), (1, 2, 3, false),
        ] {
            let load = load(promised: promised, ended: ended)
            #expect(load.hasRoom(beside: 0, of: 100, requests: requests) == hasRoom)
        }
        var load = load()
        for isLast in [false, false, true, true] { #expect(load.begin(of: 3) == isLast) }
        #expect(load.begin(of: 9) == false, "the limit is that of now")
    }

    @Test("a connection is idle without requests, be they promised or under way")
    func idle() {
        var load = load(ended: 2)
        #expect(load.isIdle)
        load.promise()
        #expect(!load.isIdle)
        load.redeemPromise()
        #expect(!load.isIdle && load.hasRoom(beside: 0, of: 1, requests: 3), "the stream counts, the promise no more")
        load.end()
        #expect(load.isIdle)
    }

    @Test("tunnels may have half of the streams")
    func tunnels() {
        var load = load()
        #expect(!load.hasRoomForTunnel(of: 1) && load.hasRoomForTunnel(of: 2))
        load.beginTunnel()
        #expect(!load.hasRoomForTunnel(of: 3) && load.hasRoomForTunnel(of: 4))
        #expect(load.isIdle, "the request of a tunnel is promised apart")
        load.endTunnel()
        #expect(load.hasRoomForTunnel(of: 2))
        for _ in 0..<50 { load.beginTunnel() }
        #expect(!load.hasRoomForTunnel(of: 1000))
        load.endTunnel()
        #expect(load.hasRoomForTunnel(of: 1000))
    }

    @Test("the first settings settle a connection, once")
    func settings() {
        var load = load()
        #expect(!load.isSettled && load.settle() && load.isSettled)
        #expect(!load.settle() && load.isSettled)
    }
}
