// Which way up a camera held an image, and turning it so.
#ifndef DPIPE_DATA_EXIF_H_
#define DPIPE_DATA_EXIF_H_

#include "absl/strings/string_view.h"
#include "data/image.h"

namespace dpipe {

// The Orientation tag (0x0112) of the first directory of a TIFF structure, which is what EXIF data
// is [CIPA DC-008, 4.6.4]; "Exif\0\0" in front is skipped. 1, upright, where there is none, or
// where the data is damaged: that is no reason to lose an image.
int ExifOrientation(absl::string_view exif);

// The image as it is to be seen; orientation in [1, 8], where 2, 4, 5 and 7 mirror it and 5 to 8
// exchange width and height. Each is what PIL's exif_transpose does.
Image ApplyOrientation(Image image, int orientation);

}  // namespace dpipe

#endif  // DPIPE_DATA_EXIF_H_
