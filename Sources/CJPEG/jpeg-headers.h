// SPDX-License-Identifier: Apache-2.0
// jpeglib.h speaks of FILE without saying where it comes from.
#include <stdio.h>
#include <jpeglib.h>
