// SPDX-License-Identifier: Apache-2.0
/// An index, or an existing name.
struct PlaceKey: CodingKey {
    let stringValue: String
    let intValue: Int?

    init(stringValue: String) {
        self.stringValue = stringValue
        intValue = nil
    }

    init(intValue: Int) {
        // The name in Foundation, which custom strategies see in paths.
        stringValue = "Index \(intValue)"
        self.intValue = intValue
    }
}
