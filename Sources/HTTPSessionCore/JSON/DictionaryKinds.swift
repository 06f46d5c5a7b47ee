// SPDX-License-Identifier: Apache-2.0
/// A dictionary with names from data, which key strategies leave as they are, as in Foundation.
protocol NamedByData {}

extension Dictionary: NamedByData where Key == String {}

/// A type whose members have no order.
protocol Unordered {}

extension Dictionary: Unordered {}
