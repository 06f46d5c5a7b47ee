// SPDX-License-Identifier: Apache-2.0

// All of HTTPSession for programs, by one import, as NIO is for NIOCore and others. `pinproxy` is made of HTTPSessionCore alone, and so
// without Foundation; whoever uses the library need not know how it is divided. ServerTrustDates is among them because cookies and
// policies of sessions have dates.
@_exported public import HTTPSessionCodable
@_exported public import HTTPSessionCore
@_exported public import ServerTrustDates
