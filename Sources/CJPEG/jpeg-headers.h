// jpeglib.h speaks of FILE without saying where it comes from.
#include <stdio.h>
#include <jpeglib.h>
