// SPDX-License-Identifier: Apache-2.0
#include "CImages.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

/// A progressive file may repeat its scans without end, each as much work as the whole image.
enum { MAXIMUM_SCANS = 100 };

typedef struct {
    struct jpeg_error_mgr manager; // First, so that libjpeg's pointer to it is one to this.
    jmp_buf out;
    char *message;
} failure;

static void leave(j_common_ptr object) {
    failure *own = (failure *)object->err;
    char text[JMSG_LENGTH_MAX];
    object->err->format_message(object, text);
    snprintf(own->message, PINPROXY_IMAGE_MESSAGE_SIZE, "%s", text);
    longjmp(own->out, 1);
}

// What libjpeg calls a warning is data that breaks off or is damaged, which it fills up with guesses; but for oddities
// that cost no pixel.
static void warn(j_common_ptr object, int level) {
    if (level >= 0) return;
    switch (object->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
        return;
    default:
        leave(object);
    }
}

static void watch(j_common_ptr object) {
    failure *own = (failure *)object->err;
    if (((j_decompress_ptr)object)->input_scan_number > MAXIMUM_SCANS) {
        snprintf(own->message, PINPROXY_IMAGE_MESSAGE_SIZE, "more than %d scans", MAXIMUM_SCANS);
        longjmp(own->out, 1);
    }
}

static void prepare(struct jpeg_decompress_struct *image, failure *own, pinproxy_image_info *info) {
    image->err = jpeg_std_error(&own->manager);
    own->manager.error_exit = leave;
    own->manager.emit_message = warn;
    own->message = info->message;
}

bool pinproxy_jpeg_read_info(const uint8_t *bytes, size_t count, pinproxy_image_info *info) {
    struct jpeg_decompress_struct image;
    failure own;
    memset(&image, 0, sizeof image);
    prepare(&image, &own, info);
    if (setjmp(own.out) != 0) {
        jpeg_destroy_decompress(&image);
        return false;
    }
    jpeg_create_decompress(&image);
    jpeg_mem_src(&image, bytes, count);
    jpeg_read_header(&image, TRUE);
    info->width = image.image_width;
    info->height = image.image_height;
    info->has_alpha = false;
    jpeg_destroy_decompress(&image);
    return true;
}

bool pinproxy_jpeg_decode(const uint8_t *bytes, size_t count, pinproxy_image_info *info, uint8_t *pixels) {
    struct jpeg_decompress_struct image;
    struct jpeg_progress_mgr progress;
    failure own;
    memset(&image, 0, sizeof image);
    memset(&progress, 0, sizeof progress);
    prepare(&image, &own, info);
    if (setjmp(own.out) != 0) {
        jpeg_destroy_decompress(&image);
        return false;
    }
    jpeg_create_decompress(&image);
    progress.progress_monitor = watch;
    image.progress = &progress;
    jpeg_mem_src(&image, bytes, count);
    jpeg_read_header(&image, TRUE);
    image.out_color_space = JCS_EXT_RGBA;
    jpeg_start_decompress(&image);
    if (image.output_width != info->width || image.output_height != info->height) {
        snprintf(info->message, sizeof info->message, "another image");
        longjmp(own.out, 1);
    }
    size_t stride = (size_t)info->width * 4;
    while (image.output_scanline < image.output_height) {
        JSAMPROW row = pixels + stride * image.output_scanline;
        jpeg_read_scanlines(&image, &row, 1);
    }
    jpeg_finish_decompress(&image);
    jpeg_destroy_decompress(&image);
    return true;
}
