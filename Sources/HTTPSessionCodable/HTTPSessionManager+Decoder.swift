// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
public import HTTPSessionCore

extension HTTPSessionManager {
    /// Decodes the bodies for serializers and streams that have no decoder of their own (`.decodable(Item.self)`); by default
    /// Foundation's `JSONDecoder`, without strategies.
    public var decoder: any DataDecoder {
        get { givenDecoder ?? JSONDecoder() }
        set { givenDecoder = newValue }
    }
}
