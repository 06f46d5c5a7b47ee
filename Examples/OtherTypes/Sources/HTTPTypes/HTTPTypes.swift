// SPDX-License-Identifier: Apache-2.0
// The public names of swift-http-types, which many servers and clients in Swift share: a program may import them beside ours.

public struct HTTPField { public init() {} }
public struct HTTPFields { public init() {} }
public struct HTTPRequest { public init() {} }
public struct HTTPResponse { public init() {} }
