// SPDX-License-Identifier: Apache-2.0
#include "CImages.h"

#include <png.h>
#include <stdio.h>
#include <string.h>

static bool fail(pinproxy_image_info *info, png_image *image, const char *message) {
    snprintf(info->message, sizeof info->message, "%s", image->message[0] != 0 ? image->message : message);
    png_image_free(image);
    return false;
}

static bool begin(const uint8_t *bytes, size_t count, png_image *image) {
    memset(image, 0, sizeof *image);
    image->version = PNG_IMAGE_VERSION;
    return png_image_begin_read_from_memory(image, bytes, count) != 0 && !PNG_IMAGE_FAILED(*image);
}

bool pinproxy_png_read_info(const uint8_t *bytes, size_t count, pinproxy_image_info *info) {
    png_image image;
    if (!begin(bytes, count, &image)) return fail(info, &image, "no PNG file");
    info->width = image.width;
    info->height = image.height;
    info->has_alpha = (image.format & PNG_FORMAT_FLAG_ALPHA) != 0;
    png_image_free(&image);
    return true;
}

bool pinproxy_png_decode(const uint8_t *bytes, size_t count, pinproxy_image_info *info, uint8_t *pixels) {
    png_image image;
    if (!begin(bytes, count, &image)) return fail(info, &image, "no PNG file");
    if (image.width != info->width || image.height != info->height) return fail(info, &image, "another image");
    image.format = PNG_FORMAT_RGBA;
    if (png_image_finish_read(&image, NULL, pixels, 0, NULL) == 0 || PNG_IMAGE_FAILED(image)) {
        return fail(info, &image, "damaged PNG file");
    }
    png_image_free(&image);
    return true;
}
