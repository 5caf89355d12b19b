// Image orientation from EXIF data.
#ifndef DPIPE_DATA_IMAGES_EXIF_H_
#define DPIPE_DATA_IMAGES_EXIF_H_

#include "absl/strings/string_view.h"
#include "data/images/image.h"

namespace dpipe {

// Returns the Orientation tag (0x0112) of the first directory of a TIFF structure, the format of
// EXIF data [CIPA DC-008, 4.6.4]. Skips a leading "Exif\0\0". Returns 1 (upright) if the tag is
// missing or the data is damaged, because that is no reason to lose an image.
int ExifOrientation(absl::string_view exif);

// Returns the upright image. Of the orientations in [1, 8], 2, 4, 5 and 7 mirror the image, and 5
// to 8 exchange width and height. Same results as PIL's exif_transpose.
Image ApplyOrientation(Image image, int orientation);

}  // namespace dpipe

#endif  // DPIPE_DATA_IMAGES_EXIF_H_
