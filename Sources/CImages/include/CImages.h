// SPDX-License-Identifier: Apache-2.0
#pragma once

// libpng and libjpeg report errors by longjmp, which must not pass through Swift. Each function here does one image from
// memory, whole, and returns.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PINPROXY_IMAGE_MESSAGE_SIZE = 256 };

typedef struct {
    uint32_t width;
    uint32_t height;
    bool has_alpha;
    /// What is wrong, when a function has returned false: a text of the library, ended by 0.
    char message[PINPROXY_IMAGE_MESSAGE_SIZE];
} pinproxy_image_info;

/// Reads the head of a PNG file.
bool pinproxy_png_read_info(const uint8_t *bytes, size_t count, pinproxy_image_info *info);

/// Decodes a PNG file.
///
/// @param info of `pinproxy_png_read_info` for the same bytes.
/// @param pixels room for width * height * 4 bytes: red, green, blue, alpha (not premultiplied), from the top.
bool pinproxy_png_decode(const uint8_t *bytes, size_t count, pinproxy_image_info *info, uint8_t *pixels);

/// Reads the head of a JPEG file.
bool pinproxy_jpeg_read_info(const uint8_t *bytes, size_t count, pinproxy_image_info *info);

/// Decodes a JPEG file; alpha is 255. Data that breaks off or is damaged is an error, not a grey field.
bool pinproxy_jpeg_decode(const uint8_t *bytes, size_t count, pinproxy_image_info *info, uint8_t *pixels);
