// SPDX-License-Identifier: Apache-2.0
public import FoundationEssentials
public import HTTPSessionCore

extension URL: URLConvertible {
    /// `absoluteString`.
    public var urlText: String { absoluteString }
}
